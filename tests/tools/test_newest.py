"""What `make test-newest` reports where it cannot run, before it changes anything."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CANNOT = 3


@pytest.fixture
def commands(tmp_path):
    """A PATH of all commands that the script needs; the user is root."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname", "tail"):
        (folder / name).symlink_to(shutil.which(name))
    add(folder, "id", "echo 0")
    add(folder, "df", "echo Avail; echo 100")
    for name in ("debootstrap", "chroot", "unshare"):
        add(folder, name, "exit 9")
    return folder


def add(folder, name, script):
    (folder / name).write_text(f"#!{shutil.which('bash')}\n{script}\n")
    (folder / name).chmod(0o755)


def reason(commands, target="test"):
    """Returns the one line that the script prints."""
    script = (ROOT / "tools/newest.sh").read_text()
    project = commands.parent / "project"
    (project / "tools").mkdir(parents=True)
    # Without the system's own folders of commands.
    script = script.replace("PATH=$PATH:/usr/sbin:/sbin\n", "")
    (project / "tools/newest.sh").write_text(script)
    finished = subprocess.run(
        [shutil.which("bash"), project / "tools/newest.sh", target],
        env={"PATH": str(commands)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == CANNOT
    assert not (project / "build").exists()
    (line,) = finished.stderr.splitlines()
    assert line.startswith("newest stack not tested: ")
    return line


@pytest.mark.parametrize(
    ("target", "command"),
    [("test", "make test-newest"), ("test-fast", "make test-newest-fast")],
)
def test_a_user_who_is_not_root_is_refused(commands, target, command):
    add(commands, "id", "[[ $1 == -u ]] && echo 1000 || echo jane")
    line = reason(commands, target)
    assert line.endswith(f"needs root, and this is jane: sudo {command}")


@pytest.mark.parametrize("command", ["debootstrap", "unshare", "chroot"])
def test_a_missing_command_is_named(commands, command):
    (commands / command).unlink()
    line = reason(commands)
    assert f"there is no {command}" in line
    assert "apt-get install debootstrap" in line


def test_a_disk_that_is_too_full_is_refused(commands):
    add(commands, "df", "echo Avail; echo 14")
    assert "it takes 15 GB of disk, and 14 GB are free" in reason(commands)


def test_a_machine_without_private_mounts_is_refused(commands):
    assert "does not allow private mounts" in reason(commands)
