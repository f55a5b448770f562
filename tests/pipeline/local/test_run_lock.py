"""Two runs do not write to one output directory at once."""

import os
import signal
import subprocess
import sys

import pytest

from pipeline.cli.main import EXIT_USAGE
from pipeline.config.errors import UsageError
from pipeline.local import run_lock
from tests import tiny
from tests.e2e import commands

HOLD = (
    "import sys, time\nfrom pathlib import Path\nfrom pipeline.local import run_lock\n"
    "with run_lock.hold(Path(sys.argv[1]), 'run that'):\n"
    "    print('held', flush=True)\n    time.sleep(600)\n"
)


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock."""
    lock = tmp_path / "output" / "run.lock"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_second_run_names_the_first_in_one_line_and_exits_with_2(other, tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    second = commands.run("run", "--config", recipe)
    assert second.returncode == EXIT_USAGE
    (line,) = second.stderr.splitlines()
    assert f"is in use by process {other.pid}, run that; wait for its end" in line
    assert not (tmp_path / "output" / "runs").exists()


def test_kernel_frees_it_where_the_run_is_killed(other, tmp_path):
    lock = tmp_path / "output" / "run.lock"
    with pytest.raises(UsageError), run_lock.hold(lock, "run this"):
        pass
    other.send_signal(signal.SIGKILL)
    other.wait()
    with run_lock.hold(lock, "run this"):
        assert lock.read_text() == f"process {os.getpid()}, run this\n"
    with run_lock.hold(lock, "run this"):  # and at the end of a run
        pass
