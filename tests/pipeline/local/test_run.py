"""A run logs its output, and locks its output directory."""

import errno
import fcntl
import logging
import os
import re
import signal
import subprocess
import sys
import termios
import time

import pytest
from tfx.v1.dsl import Pipeline
from tfx.v1.dsl.components import OutputArtifact, Parameter, component
from tfx.v1.orchestration import LocalDagRunner
from tfx.v1.orchestration.metadata import sqlite_metadata_connection_config
from tfx.v1.types.standard_artifacts import String

from contracts.errors import UsageError
from contracts.storage import reachability
from ingest import examples
from pipeline import exit_status
from pipeline.config import policy
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.local import run
from pipeline.local.progress import RunProgress
from pipeline.operations.record import RunRecord
from pipeline.operations.runs import RunList
from report.run_metadata import MetadataError
from tests import tiny
from tests.e2e import commands
from tests.nightly import nightly
from tests.refusals import refused

pytestmark = pytest.mark.slow

HOLD = """
import pathlib, sys, time
from pipeline.config.paths import OutputPaths
from pipeline.local.run import hold_output
with hold_output(OutputPaths(pathlib.Path(sys.argv[1]), "tiny"), "run that"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def paths(tmp_path):
    return OutputPaths(tmp_path / "output", "tiny")


@pytest.fixture
def other(paths):
    """Another process that holds the lock."""
    command = [sys.executable, "-c", HOLD, str(paths.root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def hold(paths):
    with run.hold_output(paths, "run this"):
        pass


def test_lines_of_the_log_are_in_the_order_of_their_output(tmp_path):
    code = """
import logging, os, pathlib, sys
from pipeline.local.run import redirect_output
with redirect_output(pathlib.Path(sys.argv[1])):
    for number in range(3):
        print(f"{number} print")
        logging.getLogger("absl").warning(f"{number} logging")
        os.write(1, f"{number} C\\n".encode())
"""
    log = tmp_path / "run.log"
    subprocess.run(
        [sys.executable, "-c", code, log], check=True, stdout=subprocess.DEVNULL
    )
    found = re.findall(r"\d (?:print|logging|C)", log.read_text())
    assert found == [f"{n} {by}" for n in range(3) for by in ("print", "logging", "C")]


@pytest.mark.parametrize("content", [b"notes\n" * 999, b"SQLite format 3\0torn"])
def test_run_adds_no_tables_to_a_database_of_another_program(
    tmp_path, console, content
):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    paths = OutputPaths.of(config)
    paths.root.mkdir()
    paths.metadata.write_bytes(content)
    with refused("E-record-damaged", kind=MetadataError):
        run.run_locally(config, console)
    assert paths.metadata.read_bytes() == content
    assert not paths.runs.exists()


def test_run_starts_with_the_empty_database_of_a_killed_run(
    tmp_path, console, monkeypatch
):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    paths = OutputPaths.of(config)
    paths.root.mkdir()
    paths.metadata.touch()

    def run_no_component(*_):
        raise UsageError(got="the first component would run", name="E-data-refused")

    monkeypatch.setattr(run, "_run", run_no_component)
    with refused("E-data-refused", got="the first component would run"):
        run.run_locally(config, console)


def test_run_of_uncommitted_files_is_refused_before_it_writes(tmp_path, console):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    (tmp_path / policy.FILE).write_text("require_commit: committed\n")
    config = load_config(recipe)
    with refused(
        "E-policy-refused",
        setting=str(tmp_path / policy.FILE),
        got=re.compile("the recipe recipe.yaml"),
    ):
        run.run_locally(config, console)
    assert not OutputPaths.of(config).root.exists()


def test_missing_data_are_refused_before_the_run_is_recorded(tmp_path, console):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    config = load_config(recipe, {"data.source": str(tmp_path / "absent")})
    with refused("E-data-not-found", setting=str(tmp_path / "absent")):
        run.run_locally(config, console)
    assert not OutputPaths.of(config).root.exists()


@pytest.mark.parametrize("source", ["data.source", "encoder.source"])
def test_remote_source_that_does_not_respond_is_refused_before_the_run_is_recorded(
    tmp_path, console, monkeypatch, source
):
    monkeypatch.setattr(reachability, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")  # nobody listens
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    config = load_config(recipe, {source: "gs://bucket/folder"})
    with refused("E-network-failed", setting="gs://bucket/folder"):
        run.run_locally(config, console)
    assert not (tmp_path / "output").exists()


def test_run_warns_once_that_its_recipe_is_in_no_commit(tmp_path, console, monkeypatch):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    monkeypatch.setattr(run, "_run", lambda *_: None)
    run.run_locally(config, console)
    shown = console.file.getvalue()
    assert shown.count("git has no commit of") == 1
    assert "the recipe recipe.yaml" in shown
    (started,) = RunList(OutputPaths.of(config))
    assert started.record.commits.recipe_file == "recipe.yaml"


@pytest.mark.parametrize("is_empty", [False, True])
def test_run_adds_no_new_database_to_the_artifacts_of_another(
    tmp_path, console, is_empty
):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    paths = OutputPaths.of(config)
    (paths.artifacts / "Trainer" / "model").mkdir(parents=True)
    if is_empty:
        paths.metadata.touch()
    with refused("E-record-damaged", setting=str(paths.metadata)):
        run.run_locally(config, console)
    assert paths.metadata.exists() == is_empty
    assert not paths.runs.exists()


def test_help_imports_neither_tensorflow_nor_tfx():
    program = (
        "import sys\nfrom pipeline.cli.main import main\n"
        "try:\n    main(['run', '--help'])\n"
        "except SystemExit:\n    pass\n"
        "print([m for m in ('tensorflow', 'tfx', 'apache_beam') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "--config" in shown.stdout
    assert shown.stdout.splitlines()[-1] == "[]"


def test_second_run_names_the_first_in_one_line_and_exits_with_2(
    other, paths, tmp_path
):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    second = commands.run("run", "--config", recipe)
    assert second.returncode == exit_status.USAGE
    (line,) = second.stderr.splitlines()
    assert f"in use by process {other.pid}, run that; wait until it ends, or" in line
    assert "name another directory with --output DIR" in line
    assert not (paths.root / "runs").exists()


@pytest.mark.parametrize("file", ["", "run.lock/child", "runs", "serving/tiny"])
def test_output_that_cannot_be_written_is_named(tmp_path, file):
    blocked = tmp_path / "output" / file
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.touch()
    paths = OutputPaths(tmp_path / "output", "tiny")
    with refused("E-storage-failed"):
        hold(paths)


def test_output_that_is_a_link_to_nothing_is_named(paths):
    paths.root.symlink_to("absent")
    got = re.compile(rf"a link to a missing directory \({paths.root}\)")
    with refused("E-storage-failed", got=got):
        hold(paths)


@pytest.mark.parametrize(
    "file", ["metadata.sqlite", "artifacts/Trainer", "training/key"]
)
def test_what_another_user_left_for_reading_is_named(paths, monkeypatch, file):
    path = paths.root / file
    path.mkdir(parents=True)
    monkeypatch.setattr("os.access", lambda name, _: str(name) != str(path))
    got = re.compile(rf"Permission denied \({path}\)")
    with refused("E-storage-failed", got=got):
        hold(paths)


def test_private_run_hides_what_earlier_ones_wrote_but_no_version(paths):
    version = paths.pushed / "1" / "model"
    for path in (version, paths.artifacts / "a", paths.root / "notes"):
        path.mkdir(parents=True)
    paths.metadata.touch(0o644)
    before = {path: path.stat().st_mode for path in paths.root.rglob("*")}
    with run.hold_output(paths, "a run", private=True):
        (paths.root / "notes" / "written").touch()
    after = {path: path.stat().st_mode for path in paths.root.rglob("*")}
    hidden = {paths.artifacts, paths.metadata}
    assert {path for path in before if after[path] != before[path]} == hidden
    hidden |= {paths.lock, paths.root / "notes" / "written"}
    assert not any(after[path] & 0o077 for path in hidden)
    (paths.root / "later").touch()
    assert (paths.root / "later").stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    ("name", "output"),
    [
        *(("E-path-pattern", output) for output in ("out[1]", "out*/a", r"out?\a")),
        ("E-storage-failed", "/dev/null/x"),
        ("E-storage-failed", "x" * 300),
        ("E-storage-failed", "recipe.yaml"),
    ],
)
def test_output_that_cannot_be_created_leaves_no_record(
    tmp_path, console, name, output
):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", output=output)
    with refused(name):
        run.run_locally(load_config(recipe), console)
    assert len(list(tmp_path.iterdir())) == 3  # recipe, encoder and data
    assert not console.file.getvalue()


@pytest.mark.parametrize("source", ["records [1]", "{SPAN}/records [1]"])
def test_records_that_tfx_reads_as_a_pattern_are_refused_before_the_first_component(
    tmp_path, console, source
):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    directory = tmp_path / source.replace("{SPAN}", "7")
    examples.prepare(str(tmp_path / "data"), str(tmp_path / "records"), config.task)
    directory.parent.mkdir(exist_ok=True)
    (tmp_path / "records").rename(directory)
    data = config.data.model_copy(update={"source": str(tmp_path / source)})
    with refused("E-path-pattern"):
        run.run_locally(config.model_copy(update={"data": data}), console)
    assert not (tmp_path / "output" / "artifacts").exists()


def test_records_that_vanish_before_they_are_read_are_refused_and_the_rest_is_kept(
    tmp_path, console, monkeypatch
):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    records = tmp_path / "records"
    examples.prepare(str(tmp_path / "data"), str(records), load_config(recipe).task)
    config = load_config(recipe, {"data.source": str(records)})
    resolve = run.resolve_inputs

    def resolve_and_lose(*arguments):
        inputs = resolve(*arguments)
        for path in records.glob("eval/*.tfrecord*"):
            path.unlink()
        return inputs

    monkeypatch.setattr(run, "resolve_inputs", resolve_and_lose)
    with refused("E-data-changed", setting=f"{records}/eval/*.tf*record*"):
        run.run_locally(config, console)
    (stopped,) = RunList(OutputPaths.of(config))
    assert "E-data-changed" in (stopped.directory / "run.log").read_text()
    assert list(records.glob("train/*.tfrecord*"))


@pytest.mark.parametrize("cluster", ["{oops", "[]", '{"worker": ["a:1", "b:1"]}'])
def test_tf_config_that_the_trainer_cannot_use_is_named_before_the_data_steps(
    tmp_path, console, monkeypatch, cluster
):
    task = '{"type": "chief", "index": 0}'
    monkeypatch.setenv("TF_CONFIG", f'{{"cluster": {cluster}, "task": {task}}}')
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    with refused("E-tf-config"):
        run.run_locally(config, console)
    assert not (tmp_path / "output").exists()


def test_machine_without_any_lock_is_one_line(paths, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", fail)
    monkeypatch.setattr("contracts.storage.file_lock._SUBSTITUTES", str(tmp_path))
    got = re.compile("No locks available")
    with refused("E-storage-failed", got=got):
        hold(paths)


def test_kernel_releases_the_lock_of_a_killed_run(other, paths):
    got = f"{paths.root} is in use by process {other.pid}, run that"
    with refused("E-output-in-use", setting="output", got=got):
        hold(paths)
    other.send_signal(signal.SIGKILL)
    other.wait()
    with run.hold_output(paths, "run this"):
        assert paths.lock.read_text() == f"process {os.getpid()}, run this\n"
    hold(paths)  # it is released at the end of a run, too


def test_run_whose_output_nobody_reads_ends_as_it_would_with_a_reader(paths, tmp_path):
    """As in `run | head`: the run itself fails, because of its encoder."""
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    reader, writer = os.pipe()
    os.close(reader)
    command = ["run", "--config", str(recipe), "--encoder", str(tmp_path / "absent")]
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", *command],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    errors = process.communicate()[1]
    assert process.returncode == exit_status.USAGE, errors
    assert "absent" in errors
    (failed,) = RunList(paths)
    assert failed.state == "failed"
    assert "standard output is lost" in failed.log


@pytest.mark.usefixtures("foreground")
def test_stop_on_a_full_disk_is_explained_and_no_failure(
    tmp_path, console, monkeypatch, caplog
):
    caplog.set_level(logging.WARNING)
    close = logging.FileHandler.close

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill_disk_and_stop(*_):
        monkeypatch.setattr(RunRecord, "write", fail)
        monkeypatch.setattr(logging.FileHandler, "close", lambda h: fail(close(h)))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    monkeypatch.setattr(run, "_run", fill_disk_and_stop)
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    with pytest.raises(KeyboardInterrupt):
        run.run_locally(config, console)
    shown = console.file.getvalue()
    assert "stopped by Ctrl-C" in shown
    assert "to resume, run:" in shown
    (log,) = OutputPaths.of(config).runs.glob("*/run.log")
    assert "run.json cannot be written: No space left on device" in log.read_text()


@pytest.mark.usefixtures("foreground")
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGHUP, "stopped by SIGHUP (closed terminal)"),
        nightly(signal.SIGTERM, "stopped by SIGTERM"),
    ],
)
def test_record_and_log_of_a_run_whose_terminal_is_gone_have_the_reason(
    paths, tmp_path, number, reason
):
    """The kernel sends SIGHUP to a session when its terminal is closed."""
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    window, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "run", "--config", str(recipe)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(terminal)
    shown = b""
    while b"starting" not in shown:
        shown += os.read(window, 1024)
    if number == signal.SIGTERM:
        process.send_signal(number)
        assert process.wait(timeout=60) == 128 + number
    os.close(window)
    assert process.wait(timeout=60) == 128 + number
    (stopped,) = RunList(paths)
    assert (stopped.state, stopped.reason) == ("interrupted", reason)
    assert stopped.record.ended is not None
    assert reason in stopped.log


@component
def LosesFile(text: OutputArtifact[String]):  # noqa: N802
    os.remove(text.uri)


@component
def Reads(text: Parameter[str]):  # noqa: N802
    raise AssertionError(text)


def test_property_that_cannot_be_read_ends_the_run(tmp_path, console):
    """TFX's launcher logs the error, and runs the next component."""
    source = LosesFile()
    database = str(tmp_path / "metadata.sqlite")
    dag = Pipeline(
        "tiny",
        str(tmp_path / "artifacts"),
        metadata_connection_config=sqlite_metadata_connection_config(database),
        components=[source, Reads(text=source.outputs["text"].future()[0].value)],
    )
    with (
        pytest.raises(
            RuntimeError, match=r"not a valid file: .*/LosesFile/text/1/value"
        ),
        RunProgress(console).shown(),
    ):
        LocalDagRunner().run(dag)
    assert "✕ Reads" in console.file.getvalue()
