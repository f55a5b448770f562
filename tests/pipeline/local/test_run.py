"""A run logs its output, and locks its output directory."""

import logging
import os
import signal
import subprocess
import sys

import pytest

from modules.errors import UsageError
from pipeline import exit_status
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.local import run
from tests import tiny
from tests.e2e import commands

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


def test_output_of_python_and_c_goes_to_the_log(tmp_path, capfd):
    log = tmp_path / "run.log"
    with run.redirect_output(log):
        os.write(1, b"from C, out\n")
        os.write(2, b"from C, err\n")
        logging.getLogger("absl").warning("from logging")
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"
    text = log.read_text()
    for line in ("from C, out", "from C, err", "from logging"):
        assert line in text


@pytest.mark.parametrize("content", [b"notes\n" * 999, b"SQLite format 3\0torn"])
def test_run_adds_no_tables_to_a_database_of_another_program(
    tmp_path, console, content
):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    paths = OutputPaths.of(config)
    paths.root.mkdir()
    paths.metadata.write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read as ML Metadata: "):
        run.run_locally(config, console)
    assert paths.metadata.read_bytes() == content
    assert [path.name for path in paths.root.iterdir()] == ["metadata.sqlite"]


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
    assert f"is in use by process {other.pid}, run that; wait until it ends" in line
    assert not (paths.root / "runs").exists()


@pytest.mark.parametrize("file", ["", "run.lock/child"])
def test_output_that_cannot_be_written_is_named(tmp_path, file):
    blocked = tmp_path / "output" / file
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.touch()
    paths = OutputPaths(tmp_path / "output", "tiny")
    message = r"output /.* cannot be written: .* name another directory"
    with pytest.raises(UsageError, match=message), run.hold_output(paths, "run this"):
        pass


def test_kernel_releases_the_lock_of_a_killed_run(other, paths):
    with pytest.raises(UsageError), run.hold_output(paths, "run this"):
        pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    with run.hold_output(paths, "run this"):
        assert paths.lock.read_text() == f"process {os.getpid()}, run this\n"
    with run.hold_output(paths, "run this"):  # and at the end of a run
        pass
