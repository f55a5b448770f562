"""`compare`: what a user names, and what is printed."""

import csv
import json
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.config import tfx_names
from tests.nightly import nightly
from tests.pipeline.operations.finished import add_trained, find
from tests.pipeline.past_runs import PastRuns
from tests.refusals import check_command

pytestmark = pytest.mark.slow

FIRST, SECOND = "20261124-193348Z-500850", "20261125-014907Z-151909"


@pytest.fixture
def first(past):
    return add_trained(past, id=FIRST)


@pytest.fixture
def second(past, first):
    """A run after the first one, which pushed a version."""
    pushed = str(past.push(17))
    return add_trained(past, seed=1, state="pushed", id=SECOND, pushed=pushed)


@pytest.fixture
def compare(second, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def compare(*arguments):
        command = ("compare", *arguments, "--output", second.paths.root)
        return CliRunner().invoke(main, [*map(str, command)])

    return compare


def test_table_and_test_fit_80_columns(compare):
    result = compare(FIRST, "latest", "--rows", "2")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:2] == [f"A  {FIRST}: 200 rows", f"B  {SECOND}: 200 rows"]
    assert any(
        line.split() == ["│", "trainer.seed", "│", "0", "│", "1", "│"] for line in lines
    )
    assert "B against A: accuracy is " in result.stdout
    assert "McNemar, 200 rows)" in result.stdout
    assert "of 200 predictions on eval changed" in result.stdout
    assert max(len(line) for line in lines if line.startswith("│")) <= 80
    assert result.stdout.count("other") == 2


def test_runs_are_named_in_every_way(first, second, compare):
    names = {
        "id": FIRST,
        "start of the id": FIRST[:8],
        "record": first.directory,
    }
    for name in names.values():
        assert f"A  {FIRST}" in compare(name, "latest", "--rows", "0").stdout
    assert f"A  {SECOND}" in compare(second.pushed, FIRST, "--rows", "0").stdout


def test_version_that_was_rolled_back_is_compared(second, compare):
    version = second.pushed
    withdrawn = version.parent / ".withdrawn" / "17"
    withdrawn.parent.mkdir()
    version.rename(withdrawn)
    assert f"A  {SECOND}" in compare(withdrawn, FIRST, "--rows", "0").stdout


def tear(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove(path):
    path.unlink()


def garble(path):
    path.write_bytes(b"name: gr\xf6\xdfe")


def leave_a_bracket_open(path):
    path.write_text("task: {metric: accuracy")


def replace_by_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "damage", [tear, *map(nightly, (remove, replace_by_directory))]
)
@pytest.mark.parametrize("name", ["config.yaml", "run.json", "metadata.sqlite"])
def test_damaged_run_that_is_not_compared_hides_nothing(past, compare, name, damage):
    path = add_trained(past, seed=2, id="20261126-000000Z-000000").directory / name
    if name == "metadata.sqlite":
        path = past.paths.metadata
    damage(path)
    result = compare(FIRST, SECOND, "--rows", "0")
    if name == "metadata.sqlite":
        is_missing = damage is remove  # as if no component had started
        refused = "E-runs-not-comparable" if is_missing else "E-record-damaged"
        check_command(result, refused, str(path))
        return
    assert result.exit_code == 0
    assert "B against A: accuracy is " in result.stdout


@pytest.mark.parametrize(
    "damage", [garble, leave_a_bracket_open, remove, replace_by_directory]
)
def test_run_without_its_settings_is_refused_by_the_path(first, compare, damage):
    settings = first.directory / "config.yaml"
    damage(settings)
    for name in (FIRST, settings.parent):
        result = compare(name, SECOND)
        reason = "missing" if damage is remove else "cannot be read: "
        check_command(result, "E-record-damaged", str(settings), reason)
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("output", "damage"),
    [
        (tfx_names.MODEL_RUN, tear),
        (tfx_names.MODEL_RUN, garble),
        (tfx_names.EXAMPLES, tear),
        (tfx_names.EXAMPLES, garble),
    ],
)
def test_damaged_rows_of_a_run_are_one_line(first, compare, output, damage):
    directory = find(first, output)
    (file,) = directory.glob("*/*")  # of the only split
    damage(file)
    check_command(compare(FIRST, SECOND), "E-record-damaged", str(directory))


def test_run_that_ml_metadata_does_not_know_is_refused(first, compare):
    record = first.directory / "run.json"
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, "tfx_run_id": "2001-01-01T00:00:00"}))
    check_command(compare(FIRST, SECOND), "E-runs-not-comparable", "metadata.sqlite")


def test_runs_of_two_output_directories(compare, tmp_path):
    other = add_trained(PastRuns(tmp_path / "other"), seed=2, id=FIRST)
    result = compare("latest", other.directory, "--rows", "0")
    assert result.exit_code == 0
    assert f"B  {FIRST}: 200 rows" in result.stdout


WARNING = "Rows were matched by id and label only"


def test_a_comparison_without_texts_warns(second, compare):
    assert WARNING not in compare(FIRST, SECOND).stdout
    assert WARNING in compare(FIRST, SECOND, "--rows", "0").stdout
    shutil.rmtree(find(second, tfx_names.EXAMPLES))
    result = compare(FIRST, SECOND)
    assert result.exit_code == 0
    assert WARNING in result.stdout
    assert json.loads(compare(FIRST, SECOND, "--json").stdout)["texts_match"] is False


def test_csv_has_every_changed_row(compare, tmp_path):
    path = tmp_path / "changed.csv"
    assert compare(FIRST, SECOND, "--rows", "0", "--csv", path).exit_code == 0
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    content = json.loads(compare(FIRST, SECOND, "--json").stdout)
    assert len(rows) == len(content["changed"]) > 10
    assert list(rows[0]) == [
        "id",
        "sentence1",
        "sentence2",
        "label",
        f"prediction {FIRST}",
        f"prediction {SECOND}",
        f"probability of the label {FIRST}",
        f"probability of the label {SECOND}",
    ]
    assert rows[0]["sentence1"] == f"text {rows[0]['id']}"
    assert content["runs"][1]["tests"]["accuracy"]["sentence"].startswith("accuracy is")


def test_run_without_a_trained_model_is_refused(past, compare):
    past.run("failed", id="20261125-020000Z-000000")
    past.execute(tfx_names.EXAMPLE_GEN, ["examples: Examples"])
    result = compare(FIRST, "latest")
    check_command(result, "E-runs-not-comparable", "20261125-020000Z-000000")


@pytest.mark.parametrize(
    ("names", "name", "part"),
    [
        ([FIRST], "E-settings-refused", "1 run; allowed: 2 to 26"),
        ([FIRST, "nope"], "E-run-unknown", "nope"),
        (["2026112", FIRST], "E-run-unknown", "2026112"),
        ([FIRST, "MODEL"], "E-version-unknown", "MODEL"),
        ([FIRST, "ELSEWHERE"], "E-run-unknown", "ELSEWHERE"),
    ],
)
def test_runs_that_are_not_there_are_refused(
    past, compare, tmp_path_factory, names, name, part
):
    places = {
        "MODEL": past.paths.pushed / "18",  # no run pushed it
        "ELSEWHERE": tmp_path_factory.mktemp("elsewhere"),
    }
    for model in places.values():
        model.mkdir(exist_ok=True)
        (model / "saved_model.pb").touch()
    result = compare(*(places.get(name, name) for name in names))
    check_command(result, name, str(places.get(part, part)))


def test_comparison_without_rows_needs_no_tensorflow(second):
    root = str(second.paths.root)
    arguments = ["compare", FIRST, SECOND, "--rows", "0", "--output", root]
    code = (
        "import sys; from pipeline.cli.main import main\n"
        f"main({arguments}, standalone_mode=False)\n"
        "assert not {'tensorflow', 'tfx'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
