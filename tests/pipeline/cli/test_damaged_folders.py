"""A damaged file of an output directory costs one line; the rest is shown."""

import functools
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from contracts import fingerprint
from contracts.records.evaluation import Verdict
from pipeline.cli.main import main
from pipeline.operations import releases
from pipeline.operations.record import SETTINGS_FILE
from pipeline.operations.releases import Release
from report.run_metadata import MetadataReader
from tests.nightly import nightly
from tests.pipeline.operations.ui.conftest import serving
from tests.pipeline.past_runs import PastRuns
from tests.refusals import check_command
from tests.report import samples
from tests.unprivileged import unprivileged

# httpx waits for 5 seconds, which a busy machine can take.
get = functools.partial(httpx.get, timeout=60)

TORN = '{"format": 1, "act'
LATER = '{"format": 2}'
NOT_UTF8 = b'{"reason": "gr\xf6\xdfe"}'
FIRST, DAMAGED, LAST = (f"20260101-0{hour}0000Z-000000" for hour in (1, 2, 3))


@pytest.fixture(autouse=True)
def installed_code(monkeypatch):
    """Replaces the fingerprint of the training, which imports TensorFlow."""
    monkeypatch.setattr(fingerprint, "of_code", lambda _: "of this code")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Three runs; the first two pushed a version, one of which was overridden."""
    past = PastRuns(tmp_path_factory.mktemp("damaged") / "output")
    for version in (1, 2, None):
        record = past.run(
            "pushed" if version else "refused",
            pushed=str(past.push(version)) if version else None,
            reason="" if version else "accuracy is 0.5",
        )
        directory = past.paths.run(record.id)
        (directory / SETTINGS_FILE).write_text("name: tiny\n")
        config = json.dumps({"code_fingerprint": "of other code"})
        (model,) = past.execute("Trainer", ["model: Model"], custom_config=config)
        (verdict,) = past.execute(
            "Evaluator", ["verdict: components.ModelVerdict"], settings="{}"
        )
        judged = Verdict(
            blessed=bool(version), splits=["eval"], champion=None, metrics=[]
        )
        past.write_json(verdict, "verdict.json", judged.as_json())
        if version:
            destination = past.paths.pushed / str(version)
            settings = {"filesystem": {"base_directory": str(destination.parent)}}
            (pushed,) = past.execute(
                "AtomicPusher",
                ["pushed_model: PushedModel"],
                inputs=[model, verdict],
                push_destination=json.dumps(settings),
                version=str(version),
            )
            past.set_property(pushed, "pushed_destination", str(destination))
            past.set_property(pushed, "pushed_version", str(version))
    release = Release(action="override", version=1, run=FIRST, reason="a typo")
    releases.add_release(past.paths.pushed, release)
    shutil.copytree(past.paths.root, past.paths.root.with_name("whole"))
    return past


@pytest.fixture
def output(written):
    """The same in each test: ML Metadata has absolute paths."""
    root = written.paths.root
    shutil.rmtree(root)
    shutil.copytree(root.with_name("whole"), root)
    return written


@pytest.fixture
def invoke(output):
    def invoke(*arguments):
        options = ["--output", str(output.paths.root)]
        return CliRunner().invoke(main, [*map(str, arguments), *options])

    return invoke


def find_database(output):
    return output.paths.metadata


def find_journal(output):
    return output.paths.pushed / releases.JOURNAL


def find_record(output):
    return output.paths.run(DAMAGED) / "run.json"


def find_lock(output):
    return output.paths.lock


def find_version(output):
    return output.paths.pushed / "2"


def find_verdict(output, execution=8):
    """Returns the verdict of the last run, or that of another execution."""
    verdicts = output.paths.artifacts / "Evaluator" / "verdict"
    return verdicts / str(execution) / "verdict.json"


def find_card(output):
    return output.paths.run(LAST) / "data_card.json"


def replace(content):
    def damage(path):
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return damage


def append(content):
    def damage(path):
        replace(path.read_bytes() + content.encode())(path)

    return damage


def prepend(content):
    def damage(path):
        replace(content.encode() + path.read_bytes())(path)

    return damage


def truncate(path):
    replace(path.read_bytes()[: path.stat().st_size // 2])(path)


def replace_by_directory(path):
    path.unlink(missing_ok=True)
    path.mkdir()


def in_manifest(damage):
    return lambda version: damage(version / "manifest.json")


def replace_graph_by_directory(version):
    """Of a model that was copied by hand; its variables are listed as complete."""
    (version / "manifest.json").unlink()
    (version / "variables").mkdir()
    (version / "variables/variables.index").touch()
    (version / "variables/variables.data-00000-of-00001").touch()
    replace_by_directory(version / "saved_model.pb")


def replace_by_another_database(path):
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (text)")
    database.close()


def overwrite_pages(path):
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    replace(bytes(content))(path)


def delete_rows(table):
    def damage(path):
        with sqlite3.connect(path) as database:
            database.execute(f"DELETE FROM {table}")
        database.close()

    return damage


OUTPUTS = {
    "runs": [FIRST[:15], DAMAGED[:15], LAST[:15]],
    "show latest": [f"run {LAST}, recipe tiny", "refused: accuracy is 0.5"],
    "versions": ["1 earlier", "2 served", "1 overridden by"],
    "lineage 1": [f"AtomicPusher of run {FIRST[:15]}", "Trainer"],
    "clean --keep 1 -v": [],
}
TABLES = ("Context", "Association", "Event", "EventPath", "Execution", "Type")
# Damage that each command meets, and the commands that cannot go on.
NO_METADATA = ["lineage 1", "clean --keep 1 -v"]
DAMAGES = {
    "torn database": (find_database, truncate, NO_METADATA),
    "empty database": (find_database, replace(""), NO_METADATA),
    "text as database": (find_database, replace("notes\n" * 999), NO_METADATA),
    "foreign database": (find_database, replace_by_another_database, NO_METADATA),
    "overwritten database": (find_database, overwrite_pages, NO_METADATA),
    **{
        f"database without {table}": (find_database, delete_rows(table), NO_METADATA)
        for table in TABLES
    },
    "directory as database": (find_database, replace_by_directory, NO_METADATA),
    "torn record": (find_record, replace(TORN), []),
    "empty record": (find_record, replace(""), []),
    "record that is a list": (find_record, replace("[1]"), []),
    "record of nested lists": (find_record, replace("[" * 200_000), []),
    "record that is not UTF-8": (find_record, replace(NOT_UTF8), []),
    "directory as record": (find_record, replace_by_directory, []),
    "directory as lock": (find_lock, replace_by_directory, []),
}
# Damage that one command meets.
READ_BY = {
    "torn journal": (find_journal, append(TORN), "versions"),
    "journal torn before its end": (find_journal, prepend(TORN + "\n"), "versions"),
    "garbled manifest": (find_version, in_manifest(replace(NOT_UTF8)), "versions"),
    "later manifest": (find_version, in_manifest(replace(LATER)), "versions"),
    "directory as manifest": (
        find_version,
        in_manifest(replace_by_directory),
        "versions",
    ),
    "directory as graph": (find_version, replace_graph_by_directory, "versions"),
    "torn verdict": (find_verdict, replace(TORN), "show latest"),
    "empty verdict": (find_verdict, replace(""), "show latest"),
    "directory as verdict": (find_verdict, replace_by_directory, "show latest"),
    "torn data card": (find_card, replace(TORN), "show latest"),
    "data card of another program": (find_card, replace('{"a": 1}'), "show latest"),
    "later data card": (find_card, replace(LATER), "show latest"),
    "directory as data card": (find_card, replace_by_directory, "show latest"),
}


def lines_about(path, printed):
    return [line for line in printed.splitlines() if str(path) in line]


def contents(root):
    return {
        path: path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != "run.lock"
    }


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_one_line_and_the_rest_is_shown(output, invoke, name):
    find, damage, refused = DAMAGES[name]
    damage(find(output))
    before = contents(output.paths.root)
    for command, expected in OUTPUTS.items():
        result = invoke(*command.split())
        (line,) = lines_about(find(output), result.stderr)
        if command in refused:
            assert result.exit_code == 2
            assert line.startswith("error: ")
        else:
            assert result.exit_code == 0
            assert line.startswith("warning: ")
            shown = " ".join(result.stdout.split())
            assert all(text in shown for text in expected)
    if find is find_database:  # no command changes it
        for command in ("clean --keep 1 --yes", f"override {LAST} --reason x"):
            invoke(*command.split())
        assert contents(output.paths.root) == before


@pytest.mark.parametrize("name", READ_BY)
def test_damage_of_a_file_is_one_line_where_it_is_read(output, invoke, name):
    find, damage, reader = READ_BY[name]
    damage(find(output))
    for command in ("runs", "show latest", "versions", "lineage 1"):
        result = invoke(*command.split())
        assert result.exit_code == 0
        count = 1 if command == reader else 0
        assert len(lines_about(find(output), result.output)) == count


@pytest.mark.parametrize(
    "damage", [replace(TORN), replace("{}"), replace("[1]"), replace(LATER)]
)
def test_lineage_of_a_version_with_a_damaged_manifest(output, invoke, damage):
    manifest = output.paths.pushed / "1" / "manifest.json"
    damage(manifest)
    result = invoke("lineage", "1")
    assert result.exit_code == 0
    assert len(lines_about(manifest, result.stderr)) == 1
    assert "Trainer of run" in result.stdout


def test_lineage_leaves_out_the_facts_of_an_execution_without_properties(
    output, invoke
):
    delete_rows("ExecutionProperty")(output.paths.metadata)
    result = invoke("lineage", "1")
    assert result.exit_code == 0
    assert "Trainer of run" in result.stdout
    assert "no property custom_config in " in result.stderr


@pytest.mark.parametrize("command", ["runs", "show latest", "versions"])
def test_json_is_whole_next_to_a_damaged_database(output, invoke, command):
    replace("")(output.paths.metadata)
    assert json.loads(invoke(*command.split(), "--json").stdout)
    assert output.paths.metadata.read_bytes() == b""


KILLED = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE Artifact SET uri = hex(zeroblob(9999))")
database.execute("DELETE FROM Event")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_transaction_of_a_killed_process_is_undone(output, invoke):
    database = output.paths.metadata
    before = database.read_bytes()
    subprocess.run([sys.executable, "-c", KILLED, database], check=False)
    assert database.read_bytes() != before
    assert database.with_name(f"{database.name}-journal").exists()
    for command, expected in OUTPUTS.items():
        result = invoke(*command.split())
        assert (result.exit_code, result.stderr) == (0, "")
        shown = " ".join(result.stdout.split())
        assert all(text in shown for text in expected)
    assert database.read_bytes() == before


def test_transaction_that_a_reader_may_not_undo_is_one_line(output):
    database = output.paths.metadata
    subprocess.run([sys.executable, "-c", KILLED, database], check=False)
    with unprivileged(output.paths.root) as root:
        (root / database.name).chmod(0o400)
        result = CliRunner().invoke(main, ["runs", "--output", str(root)])
    assert result.exit_code == 0
    (line,) = lines_about(root / database.name, result.stderr)
    assert "; repeat the command as a user who may write to it" in line


@pytest.mark.nightly
def test_locked_database_is_one_line_within_seconds(output, invoke):
    with sqlite3.connect(output.paths.metadata, isolation_level=None) as database:
        database.execute("BEGIN EXCLUSIVE")
        result = invoke("runs")
    database.close()
    assert result.exit_code == 0
    assert "is locked" in result.stderr
    assert LAST[:15] in result.stdout


def test_runs_that_the_database_does_not_know_are_named_once(output, invoke, tmp_path):
    other = PastRuns(tmp_path / "other")
    other.run()
    shutil.copy(other.paths.metadata, output.paths.metadata)
    shown = invoke("show", "latest")
    assert f"run {LAST}, recipe tiny" in shown.stdout
    (line,) = lines_about(output.paths.metadata, shown.stderr)
    assert f"does not know the runs {LAST}, {DAMAGED}" in line
    before = contents(output.paths.root)
    assert invoke("clean", "--keep", "1", "--yes").exit_code == 0
    assert contents(output.paths.root) == before
    refused = invoke("override", LAST, "--reason", "x")
    check_command(refused, "E-run-not-finished", "does not know")


def test_run_whose_record_is_gone_hides_nothing(output, invoke):
    shutil.rmtree(output.paths.run(DAMAGED))
    for command, expected in OUTPUTS.items():
        result = invoke(*command.split())
        assert (result.exit_code, result.stderr) == (0, "")
        if command not in ("runs",):
            shown = " ".join(result.stdout.split())
            assert all(text in shown for text in expected)


def test_clean_keeps_a_damaged_run_and_what_it_wrote(output, invoke):
    record = output.paths.run(FIRST) / "run.json"
    content, before = record.read_bytes(), contents(output.paths.root)
    replace(TORN)(record)
    assert "nothing to delete" in invoke("clean", "--keep", "1", "--yes").stdout
    replace(content)(record)
    assert contents(output.paths.root) == before
    assert "freed" in invoke("clean", "--keep", "1", "--yes").stdout
    assert not find_verdict(output, 2).exists()


def test_clean_names_a_run_that_it_does_not_know_and_cleans_the_others(output, invoke):
    record = output.paths.run("20260101-013000Z-000000")
    record.mkdir()
    (record / "run.log").write_text("log")
    cleaned = invoke("clean", "--keep", "1", "--yes", "--json")
    assert cleaned.exit_code == 0
    (line,) = lines_about(record, cleaned.stderr)
    assert "run.json: missing; restore it" in line
    # The second run's model is served, and the first one's version was overridden.
    deleted = {entry["path"] for entry in json.loads(cleaned.stdout)}
    assert str(find_verdict(output, 2).parent) in deleted
    assert not find_verdict(output, 2).exists()
    assert find_verdict(output, 5).exists()
    assert (record / "run.log").exists()


def test_clean_keeps_what_an_execution_of_no_run_read(output, invoke):
    with sqlite3.connect(output.paths.metadata) as database:
        # The context of the first run's Trainer remains, and that of its run is lost.
        database.execute(
            "DELETE FROM Association WHERE execution_id = 1 AND context_id IN "
            "(SELECT c.id FROM Context c JOIN Type t ON t.id = c.type_id "
            "WHERE t.name = 'pipeline_run')"
        )
    database.close()
    for path in (output.paths.examples("unread"), output.paths.encoder("unread")):
        path.mkdir(parents=True)
    shown = invoke("clean", "--keep", "1", "-v").stdout
    assert "Evaluator/verdict/2" in shown
    assert "Trainer/model/1" not in shown
    assert "unread" not in shown


def test_missing_settings_are_named(output, invoke):
    path = output.paths.run(LAST) / SETTINGS_FILE
    path.unlink()
    for reason in ("missing", "cannot be read: not YAML"):
        shown = invoke("show", "latest")
        assert shown.exit_code == 0
        (line,) = lines_about(path, shown.output)
        assert f"{path}: {reason}; restore it from a backup" in line
        path.write_text("name: [")


SERVED = "serving/tiny"


def read(root):
    """Returns the results of the commands that read an output directory."""
    return {
        command: CliRunner().invoke(main, [*command.split(), "--output", str(root)])
        for command in ("runs", "show latest", "versions", "clean --keep 1")
    }


@pytest.mark.parametrize(
    ("name", "mode", "stopped"),
    [
        ("serving", 0, ["versions", "clean --keep 1"]),
        ("serving", 0o400, ["versions", "clean --keep 1"]),
        (SERVED, 0, ["clean --keep 1"]),
        (SERVED, 0o400, ["clean --keep 1"]),
        ("artifacts", 0, ["clean --keep 1"]),
    ],
)
def test_unreadable_folder_stops_clean_but_no_list(output, name, mode, stopped):
    with unprivileged(output.paths.root) as root:
        path = root / name
        with sqlite3.connect(root / "metadata.sqlite") as database:
            database.execute(
                "UPDATE Artifact SET uri = replace(uri, ?, ?)",
                (str(output.paths.root), str(root)),
            )
        database.close()
        path.chmod(mode)
        try:
            results = read(root)
        finally:
            path.chmod(0o700)
    for command, result in results.items():
        assert result.exit_code == (2 if command in stopped else 0), result.exception
        if command in stopped or (command, name) == ("versions", SERVED):
            lines = lines_about(path, result.stderr)
            advised = [line for line in lines if "Permission denied; make it" in line]
            assert len(advised) == 1


@pytest.mark.parametrize("name", ["version", "record", "files of a version"])
def test_unreadable_directory_is_one_line(output, invoke, name):
    version = output.paths.pushed / "2"
    path = {"record": find_record(output).parent}.get(name, version)
    with unprivileged(output.paths.root) as root:
        path = root / path.relative_to(output.paths.root)
        path.chmod(0o400 if name == "files of a version" else 0)
        try:
            results = read(root)
        finally:
            path.chmod(0o700)
    for result in results.values():
        assert isinstance(result.exception, SystemExit | None), result.exception
    affected = "runs" if name == "record" else "versions"
    assert len(lines_about(path, results[affected].output)) == 1
    shown = " ".join(results["versions"].stdout.split())
    assert ("1 earlier" if name == "record" else "1 served") in shown


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("torn database", "torn record", "directory as lock")
        # The web view reads as the commands do.
        else nightly(name)
        for name in DAMAGES
    ],
)
def test_web_view_shows_the_damage_and_the_other_runs(output, name):
    find, damage, _ = DAMAGES[name]
    damage(find(output))
    with serving([output.paths.root]) as address:
        page = get(address)
        assert page.status_code == 200
        assert page.text.count(f'value="0/{LAST}"') == 1
        assert page.text.count(str(find(output))) == 1
        assert get(f"{address}/live").status_code == 200
        assert get(f"{address}/runs/0/{LAST}").status_code == 200
        compared = {"run": [f"0/{FIRST}", f"0/{LAST}"]}
        refused = get(f"{address}/compare/result", params=compared)
        assert refused.status_code == 400


def test_next_release_does_not_join_a_torn_line(output, invoke):
    append(TORN)(find_journal(output))
    assert invoke("rollback", "1", "--reason", "slow").exit_code == 0
    versions = invoke("versions")
    assert "2 rolled back by" in " ".join(versions.stdout.split())
    assert len(lines_about(find_journal(output), versions.stderr)) == 1


def test_journal_that_is_a_directory_stops_a_rollback_but_not_a_list(output, invoke):
    replace_by_directory(find_journal(output))
    versions = invoke("versions")
    assert versions.exit_code == 0
    assert "2 served" in " ".join(versions.stdout.split())
    assert len(lines_about(find_journal(output), versions.stderr)) == 1
    written = "cannot be written: Is a directory"
    check_command(invoke("rollback"), "E-storage-failed", written)
    assert (output.paths.pushed / "2").is_dir()


@pytest.mark.parametrize("command", ["predict --text x", "serve --port 0 --no-grpc"])
def test_model_that_cannot_be_read_is_one_line(tmp_path, command):
    graph = tmp_path / "saved_model.pb"
    graph.symlink_to(graph.name)  # a loop
    result = CliRunner().invoke(main, [*command.split(), "--model", str(tmp_path)])
    check_command(result, "E-storage-failed", f"error: --model: {graph}")
    assert len(lines_about(graph, result.stderr)) == 1


@pytest.mark.parametrize("command", ["predict --text x", "serve --port 0 --no-grpc"])
@pytest.mark.parametrize("version", [".", "1"])
@pytest.mark.parametrize(
    "graph",
    [b"", b"garbage", b"\x08\x01", b"\x08\x01\x12\x05half", b"\x08\x01\x12\x01ab"],
)
def test_graph_that_is_not_one_ends_a_command_with_one_line(
    tmp_path, command, version, graph
):
    (tmp_path / version).mkdir(exist_ok=True)
    (tmp_path / version / "saved_model.pb").write_bytes(graph)
    result = CliRunner().invoke(main, [*command.split(), "--model", str(tmp_path)])
    problem = "saved_model.pb is not a SavedModel, or only a part of one"
    check_command(result, "E-model-damaged", str(tmp_path / version), problem)
    assert len(lines_about(tmp_path, result.stderr)) == 1


def test_report_of_an_earlier_release_is_one_line(output, invoke):
    report = output.paths.run(LAST) / "report.json"
    report.write_text('{"format": 1, "pipeline": "tiny", "metrics": []}')
    result = invoke("show", LAST)
    assert result.exit_code == 0
    (line,) = lines_about(report, result.stderr)
    assert "its format is 1; allowed: 2, which this release reads" in line


def test_damaged_verdict_is_not_overridden(output, invoke):
    replace(TORN)(find_verdict(output))
    result = invoke("override", LAST, "--reason", "x")
    missing = f"the verdict of run {LAST} is missing"
    check_command(result, "E-record-damaged", missing)


@pytest.mark.parametrize("damage", [replace(TORN), replace_by_directory])
def test_web_view_names_the_damaged_files_of_a_run_without_a_report(output, damage):
    report = output.paths.run(LAST) / "report.json"
    settings = output.paths.run(LAST) / SETTINGS_FILE
    damage(report)
    settings.unlink()
    with serving([output.paths.root]) as address:
        page = get(f"{address}/runs/0/{LAST}")
    assert page.status_code == 200
    assert page.text.count(str(report)) == 1
    assert page.text.count(str(settings)) == 1


@pytest.mark.parametrize("damage", [replace("name: ["), nightly(Path.unlink)])
def test_web_view_names_the_damaged_files_of_a_run_with_a_report(output, damage):
    record = output.paths.run(LAST)
    samples.refused().write(str(record))
    replace(TORN)(record / "run.json")
    damage(record / SETTINGS_FILE)
    with serving([output.paths.root]) as address:
        page = get(f"{address}/runs/0/{LAST}")
    assert page.status_code == 200
    assert samples.refused().conclusion in page.text
    for name in ("run.json", SETTINGS_FILE):
        assert page.text.count(str(record / name)) == 1


def test_web_view_reads_an_output_once(output, monkeypatch):
    read = []
    open_database = MetadataReader.of_file
    monkeypatch.setattr(
        MetadataReader, "of_file", lambda path: read.append(path) or open_database(path)
    )
    with serving([output.paths.root]) as address:
        for path in ("/", "/live"):
            read.clear()
            assert get(f"{address}{path}").status_code == 200
            assert read == [output.paths.metadata]
