"""`.ci/run` with a fake `make`: what becomes of the newest stack's result."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def run(folder, newest):
    """Runs it with a script instead of tools/newest.sh."""
    for name, script in (
        ("bin/make", 'echo "$@" >>calls'),
        ("tools/newest.sh", newest),
    ):
        (folder / name).parent.mkdir()
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", folder / ".ci/run")
    environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    environment.pop("CI", None)
    return subprocess.run(
        ["bash", folder / ".ci/run"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_style_types_and_tests_run_first(tmp_path):
    finished = run(tmp_path, 'echo "newest $1" >>calls')
    assert finished.returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[-2:] == ["lint types test", "newest test-fast"]


def test_a_machine_that_cannot_test_the_newest_stack_passes(tmp_path):
    finished = run(tmp_path, "echo 'newest stack not tested: no disk' >&2; exit 3")
    assert finished.returncode == 0
    assert finished.stderr == "newest stack not tested: no disk\n"


@pytest.mark.parametrize(
    ("status", "line"),
    [
        (1, "newest stack: failed with exit status 1\n"),
        (124, "newest stack: not done within 30 minutes\n"),
    ],
)
def test_a_failure_of_the_newest_stack_fails_with_one_line(tmp_path, status, line):
    finished = run(tmp_path, f"exit {status}")
    assert finished.returncode == 1
    assert finished.stderr == line
