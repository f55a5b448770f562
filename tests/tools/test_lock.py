"""`make lock` with a fake uv: the arguments that uv gets, and the printed changes."""

import os
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import image_rules

ROOT = Path(__file__).parent.parent.parent
# Of environments that do not belong to a stack.
APART = (
    "benchmarks/peers/requirements.lock",
    "tools/docs/requirements.lock",
)
RUNTIME = {
    python: f"deploy/runtime/locks/py{python}.lock"
    for python in ("3.10", "3.11", "3.12", "3.13")
}
# Records its input. Resolving for wheels it chooses version RICH of package `rich`;
# otherwise it writes a lock of the versions it starts from.
UV = r"""#!/bin/bash
echo "$@" >>"$CALLS"
cat pyproject.toml overrides.txt >>"$CALLS"
wheels=$(grep -o -e --only-binary <<<"$*")
while [[ $1 != --output-file ]]; do shift; done
[[ ! -e $2 ]] || cat "$2" >>"$CALLS"
if [[ -n $wheels ]]; then
  printf '%s\n' click==8 "rich==${RICH:-1}" >"$2"
else
  rich=$(grep -o -m 1 '^rich==[0-9]*' "$2")
  printf '%s ; x \\\n    --hash=sha256:0\n' click==8 "$rich" >"$2"
fi
"""
LOCK = "".join(
    f"{package} ; x \\\n    --hash=sha256:0\n" for package in ("click==8", "rich==1")
)


@pytest.fixture
def project(tmp_path):
    """A checkout with two stacks, whose locks have two packages each."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/lock.sh", tmp_path / "tools")
    locks = [
        f"stacks/{stack}/{name}.lock"
        for stack in ("1.21", "1.16")
        for name in ("requirements", "gpu")
    ]
    for name in (*locks, *APART, *RUNTIME.values()):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(LOCK)
        os.utime(tmp_path / name, (1, 1))
    for name in (
        *("requirements.in", "requirements-gpu.in", "overrides.txt"),
        *(str(Path(lock).with_suffix(".in")) for lock in APART),
        *("stacks/stacks.txt", "deploy/runtime/pyproject.toml"),
        "deploy/runtime/setup.py",
    ):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    return tmp_path


def lock(project, *options, **environment):
    """Runs the script; returns its output, and the input of uv by output file."""
    calls = project / "calls"
    path = f"{project}:{os.environ['PATH']}"
    finished = subprocess.run(
        ["bash", "tools/lock.sh", *options],
        cwd=project,
        env=os.environ | {"PATH": path, "CALLS": str(calls)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    inputs = {}
    for call in calls.read_text().split("pip compile ")[1:]:
        file = call.splitlines()[0].split()[-1]
        inputs.setdefault(file, []).append(call)
    return finished.stdout, inputs


def test_an_unchanged_lock_keeps_its_time_stamp(project):
    output, inputs = lock(project)
    locks = [name for name in inputs if name.endswith(".lock")]
    assert output.splitlines() == [f"{name}: unchanged" for name in locks]
    assert len(locks) == 4 + len(APART) + len(RUNTIME)
    assert all((project / name).stat().st_mtime == 1 for name in locks)


def test_changed_versions_are_printed(project):
    output, _ = lock(project, RICH="2")
    assert "stacks/1.16/requirements.lock: changed\n  rich 1 -> 2\n" in output
    assert "click" not in output
    text = (project / "stacks/1.16/requirements.lock").read_text()
    assert text == LOCK.replace("rich==1", "rich==2")


def test_all_packages_of_a_new_lock_are_printed(project):
    path = project / "stacks/1.21/gpu.lock"
    path.unlink()
    output, _ = lock(project)
    changes = "stacks/1.21/gpu.lock: changed\n  click none -> 8\n  rich none -> 1\n"
    assert changes in output
    assert path.exists()


def test_a_new_stack_gets_its_folder(project):
    shutil.rmtree(project / "stacks/1.21")
    lock(project)
    assert (project / "stacks/1.21/requirements.lock").read_text() == LOCK
    assert (project / "stacks/1.21/gpu.lock").exists()


def test_options_go_to_the_calls_of_uv_that_choose_versions(project):
    option = "--upgrade-package rich"
    _, inputs = lock(project, *option.split())
    for lock_file in (*APART, *RUNTIME.values()):
        assert option in inputs.pop(lock_file)[0]
    for file, calls in inputs.items():
        for call in calls:
            assert (option in call) == file.startswith("python-")


def test_a_stack_is_resolved_for_its_pythons_with_its_own_overrides(project):
    _, inputs = lock(project)
    (old,) = inputs["stacks/1.16/requirements.lock"]
    assert "--python-version 3.10 " in old
    assert "python_version >= '3.10' and python_version < '3.12'" in old
    assert "protobuf>=4" in old
    assert "tensorflow==" not in old
    (new,) = inputs["stacks/1.21/requirements.lock"]
    assert "--python-version 3.12 " in new
    assert "python_version >= '3.12' and python_version < '3.14'" in new
    assert "protobuf>=4" not in new
    assert "tensorflow==" in new
    for call in (old, new):
        assert "tensorflow-hub==" in call
        assert "notebook ; python_version < '0'" in call


@pytest.mark.parametrize(
    ("stack", "platform", "pythons"),
    [
        ("1.16", "x86_64-manylinux_2_28", ("3.10", "3.11")),
        ("1.21", "x86_64-manylinux_2_39", ("3.12", "3.13")),
    ],
)
def test_a_lock_starts_from_versions_with_wheels_for_the_glibc(
    project, stack, platform, pythons
):
    _, inputs = lock(project, RICH="2")
    for python in pythons:
        packages, gpu = inputs[f"python-{python}"]
        assert f"--python-version {python} --python-platform {platform} " in packages
        assert "--only-binary :all: --no-binary=" in packages
        assert "rich==1 ;" in packages, "a locked version that fits is kept"
        assert "requirements-gpu.in" in gpu
        (call,) = inputs[f"stacks/{stack}/requirements.lock"]
        assert f"rich==2 ; python_version == '{python}'" in call


@pytest.mark.parametrize("lock_file", APART)
def test_an_environment_of_no_stack_is_resolved_for_all_pythons(project, lock_file):
    _, inputs = lock(project)
    (call,) = inputs[lock_file]
    assert "python_version >= '3.10' and python_version < '3.14'" in call
    assert "rich==1 ;" in call


def test_the_runtime_is_resolved_for_each_of_its_pythons_as_pip_would(project):
    setup = runpy.run_path(str(ROOT / "deploy/runtime/setup.py"))
    assert setup["PYTHONS"] == tuple(RUNTIME)
    _, inputs = lock(project)
    for python, file in RUNTIME.items():
        (call,) = inputs[file]
        command = call.splitlines()[0]
        assert f"--python-version {python} --python-platform x86_64-manyl" in command
        assert "--generate-hashes" in command
        assert " deploy/runtime/setup.py " in command
        assert "--override" not in command
        assert "--universal" not in command


@pytest.mark.parametrize("python", RUNTIME)
def test_every_package_of_the_runtime_has_hashes_and_no_marker(python):
    text = (ROOT / RUNTIME[python]).read_text()
    assert "://" not in text
    entries = re.findall(r"^[a-z].+\\\n    --hash=sha256:[0-9a-f]{64}", text, re.M)
    assert len(entries) == len(re.findall("^[a-z]", text, re.M))
    assert " ; " not in text
    names = {entry.partition("==")[0] for entry in entries}
    assert {"onnxruntime", "tokenizers"} <= names
    assert not {"grpcio", "pandas", "pyarrow", "rich", "tensorflow"} & names


@pytest.mark.parametrize("python", RUNTIME)
def test_the_runtime_allows_what_is_locked(python):
    locked = image_rules.read_lock(ROOT / RUNTIME[python], python)
    setup = runpy.run_path(str(ROOT / "deploy/runtime/setup.py"))
    for requirement in map(Requirement, setup["REQUIREMENTS"]):
        assert requirement.specifier.contains(locked[requirement.name]), requirement
