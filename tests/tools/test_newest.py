"""What `make test-newest` says where it cannot run; it has done nothing then."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def commands(tmp_path):
    """The folder of all commands that there are; the user is root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname"):
        (folder / name).symlink_to(shutil.which(name))
    add(folder, "id", "echo 0")
    add(folder, "unshare", "exit 9")
    add(folder, "chroot", "exit 9")
    return folder


def add(folder, name, script):
    (folder / name).write_text(f"#!{shutil.which('bash')}\n{script}\n")
    (folder / name).chmod(0o755)


def complaint(commands, task="test"):
    script = (ROOT / "tools/newest.sh").read_text()
    project = commands.parent / "project"
    (project / "tools").mkdir(parents=True)
    # The folders of the system's commands are none of the test's.
    script = script.replace("PATH=$PATH:/usr/sbin:/sbin\n", "")
    (project / "tools/newest.sh").write_text(script)
    finished = subprocess.run(
        [shutil.which("bash"), project / "tools/newest.sh", task],
        env={"PATH": str(commands)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1
    assert not (project / "build").exists()
    (line,) = finished.stderr.splitlines()
    return line


@pytest.mark.parametrize("task", ["test", "bench"])
def test_nobody_but_root(commands, task):
    add(commands, "id", "[[ $1 == -u ]] && echo 1000 || echo jane")
    line = complaint(commands, task)
    assert f"needs root, and this is jane: sudo make {task}-newest" in line


def test_no_debootstrap(commands):
    line = complaint(commands)
    assert "there is no debootstrap" in line
    assert "apt-get install debootstrap" in line
