"""What `make image` is built from, and whether its check sees what is wrong."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from tools import check_image, image_rules
from tools.dockerfile import Dockerfile

ROOT = Path(__file__).parent.parent
FILES = (
    *("Dockerfile", ".dockerignore", "LICENSE", "pyproject.toml", "setup.py"),
    "requirements.in",
)
FOLDERS = ("components", "modules", "pipeline", "sample_data", "serving", "stacks")
STACK = image_rules.Stack(ROOT)
PYTHON = "{}.{}".format(*sys.version_info)


@pytest.fixture
def project(tmp_path):
    """A copy of all that an image is built from, to break."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/install_image.sh", tmp_path / "tools")
    return tmp_path


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def complaints(project):
    return [text for rule in image_rules.RULES for text in rule(project)]


def test_what_is_committed_keeps_every_rule(project):
    assert complaints(project) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("USER_ID=1000", "USER_ID=0", "the last USER is '0'"),
        ("USER ${USER_ID}:0", "USER pipeline", "the last USER is 'pipeline'"),
        ("USER ${USER_ID}:0", "", "the last USER is 'root'"),
        ("python:${PYTHON_VERSION}-slim", "python:slim", "has no version"),
        ("# The image of", "# syntax=docker/dockerfile:1\n#", "fetch a frontend"),
        ("BEAM_VERSION=2.", "BEAM_VERSION=1.2.", "requirements.lock has apache-beam"),
        ("PYTHON_VERSION=3.", "PYTHON_VERSION=2.", "PYTHON_VERSION is 2."),
        (
            "COPY stacks/1.21/requirements.lock stacks/1.21/",
            "COPY stacks/1.16/requirements.lock stacks/1.16/",
            "stacks/1.21/requirements.lock, of the newest stack, is not what is",
        ),
        ("beam_python${PYTHON_VERSION}", "beam_python3.9", "is not of Python"),
        ("_sdk:${BEAM_VERSION}", "_sdk:1.0", "Beam's boot is not from apache/beam"),
        ("PYTHONUNBUFFERED=1", "HF_TOKEN=x", "HF_TOKEN looks like a secret"),
        ("ARG REVISION=", "ARG REGISTRY_PASSWORD=", "REGISTRY_PASSWORD looks like"),
        ("COPY modules", "ADD https://example.org/m.tgz", "use COPY"),
        ("COPY LICENSE", "COPY requirements.in", ".dockerignore keeps it out"),
        ("COPY LICENSE", "COPY NOTICE", "COPY NOTICE: there is no such file"),
        ("COPY LICENSE", "COPY", "LICENSE: .dockerignore lets it in, but nothing"),
        (" /s3 ", " ", "no RUN makes /s3"),
        ("/opt/apache/beam/boot", "python", "Beam's workers need"),
        ("install_image.sh project", "other.sh", "the part project is not installed"),
        ("/opt/accelerator /usr/local", "/a /b", "is not copied to /usr/local"),
    ],
)
def test_a_fault_of_the_dockerfile_is_told(project, old, new, complaint):
    edit(project / "Dockerfile", old, new)
    assert complaint in "\n".join(complaints(project))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("!modules\n", "", "COPY modules: .dockerignore keeps it out"),
        ("!modules\n", "!modules/*.py\n", "modules/encoder/model.py is in setup.py's"),
        ("**/.*\n", "", "a file components/.env would get in"),
        ("**/*.pem\n", "", "a file pipeline/data/client.pem would get in"),
        ("\n*\n", "\n.git\n", "a file output/model/weights would get in"),
        (
            "!setup.py\n",
            "!setup.py\n!tests\n",
            "a file tests/test_image.py would get in",
        ),
    ],
)
def test_a_fault_of_the_dockerignore_is_told(project, old, new, complaint):
    edit(project / ".dockerignore", old, new)
    assert complaint in "\n".join(complaints(project))


def test_a_new_package_that_no_build_would_get_is_told(project):
    (project / "plugins").mkdir()
    (project / "plugins/__init__.py").touch()
    edit(project / "setup.py", '"serving")', '"serving", "plugins")')
    (complaint,) = complaints(project)
    assert "plugins/__init__.py is in setup.py's packages" in complaint


def test_only_the_gpu_image_has_nvidias_libraries():
    def copied(accelerator):
        path = ROOT / "Dockerfile"
        stages = Dockerfile.read(path, ACCELERATOR=accelerator).lineage()
        return [origin for stage in stages for origin, _, _ in stage.copies()]

    assert copied("cpu") == ["beam", "packages", "project"]
    assert copied("gpu") == ["beam", "packages", "accelerator", "project"]


def test_the_gpu_lock_is_what_tensorflow_asks_for():
    def of_this_python(lines, **extra):
        found = [Requirement(line) for line in lines if line.startswith("nvidia-")]
        return {
            requirement.name: requirement.specifier
            for requirement in found
            if requirement.marker.evaluate(extra)
        }

    wanted = of_this_python(metadata.requires("tensorflow"), extra="and-cuda")
    assert len(wanted) == 12
    asked = (ROOT / "requirements-gpu.in").read_text().splitlines()
    assert of_this_python(asked) == wanted


@pytest.mark.parametrize(
    "lock",
    sorted((ROOT / "stacks").glob("*/gpu.lock")),
    ids=lambda path: path.parent.name,
)
def test_every_line_of_the_gpu_lock_has_its_hashes(lock):
    found = lock.read_text()
    entries = re.findall(r"^nvidia-.+\\\n    --hash=sha256:[0-9a-f]{64}", found, re.M)
    assert len(entries) == len(re.findall(r"^[a-z]", found, re.M)) == 12


def test_the_installer_leaves_out_what_is_for_development_only():
    script = (ROOT / "tools/install_image.sh").read_text().replace("\\\n", "")
    (names,) = re.findall('^development="(.*)"$', script, re.MULTILINE)
    assert set(names.split()) == image_rules.development_packages(ROOT)


def write_stack(root, lock):
    """Writes a checkout's one stack, with this lock; returns the lock's path."""
    (root / "requirements.in").write_text("tfx\n# Development.\npytest\n")
    (root / "stacks/1.16").mkdir(parents=True)
    (root / "stacks/stacks.txt").write_text(f"# Comment.\n1.16 2.17 {PYTHON} 3.1\n")
    path = root / "stacks/1.16/requirements.lock"
    path.write_text(lock)
    return path


def test_what_a_pipeline_needs_too_is_not_for_development_only(tmp_path):
    write_stack(
        tmp_path,
        "pytest==1\n    # via -r requirements.in\n"
        "iniconfig==1\n    # via pytest\n"
        "pluggy==1\n    # via\n    #   keyring\n    #   pytest\n"
        "keyring==1\n    # via tfx\n"
        "tfx==1\n    # via -r requirements.in\n",
    )
    assert image_rules.development_packages(tmp_path) == {"pytest", "iniconfig"}


@pytest.fixture
def image(tmp_path, monkeypatch):
    """An image with one package of a lock of one, and this project of one module."""
    root = tmp_path / "checkout"
    (root / "modules").mkdir(parents=True)
    (root / "modules/__init__.py").touch()
    write_stack(root, "tfx==1.16\n    # via -r requirements.in\n")
    (root / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='x', packages=['modules'])\n"
    )
    monkeypatch.setattr(check_image, "ROOT", root)
    prefix = tmp_path / "usr-local"
    image = SimpleNamespace(
        prefix=prefix,
        site_packages=prefix / "lib/python3.11/site-packages",
        files={"packages": [], "project": []},
    )
    install(image, "packages", "tfx", "1.16", "tfx/__init__.py")
    name = check_image.PROJECT.replace("-", "_")
    install(image, "project", name, "1.0.0", "modules/__init__.py")
    return image


def install(image, part, name, version, *files):
    information = f"{name}-{version}.dist-info"
    files = [*files, f"{information}/METADATA", f"{information}/RECORD"]
    for file in files:
        path = image.site_packages / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"Name: {name}\nVersion: {version}\n")
        image.files[part].append(path.relative_to(image.prefix))
    (image.site_packages / information / "RECORD").write_text(
        "".join(f"{file},,\n" for file in files)
    )


def add(image, part, file):
    path = image.site_packages / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    image.files[part].append(path.relative_to(image.prefix))
    return path


def content_complaints(image):
    checks = (
        check_image.packages_are_the_locks,
        check_image.files_have_an_owner,
        check_image.project_is_whole,
    )
    return [text for check in checks for text in check(image)]


def test_an_image_as_it_should_be(image):
    assert content_complaints(image) == []


def test_a_development_tool_in_the_image_is_told(image):
    install(image, "packages", "pytest", "9.2", "pytest/__init__.py")
    lock = check_image.ROOT / "stacks/1.16/requirements.lock"
    lock.write_text(f"{lock.read_text()}pytest==9.2\n    # via -r requirements.in\n")
    (complaint,) = content_complaints(image)
    assert complaint.startswith("pytest is for development only")


def test_a_package_of_no_lock_is_told(image):
    install(image, "packages", "torch", "2.0", "torch/__init__.py")
    assert content_complaints(image) == ["torch 2.0 is in no lock"]


def test_another_version_than_the_locked_is_told(image):
    lock = check_image.ROOT / "stacks/1.16/requirements.lock"
    edit(lock, "1.16", "1.17")
    assert content_complaints(image) == ["tfx is 1.16, locked is 1.17"]


def test_a_missing_package_is_told(image):
    shutil.rmtree(image.site_packages / "tfx-1.16.dist-info")
    image.files["packages"] = []
    assert content_complaints(image) == ["tfx is missing"]


def test_a_file_of_no_package_is_told(image):
    add(image, "packages", "notes.txt")
    (complaint,) = content_complaints(image)
    assert complaint.endswith("notes.txt belongs to no package")


def test_a_file_that_the_user_cannot_read_is_told(image):
    (image.site_packages / "tfx/__init__.py").chmod(0o600)
    (complaint,) = content_complaints(image)
    assert complaint.endswith("tfx/__init__.py is not for every user to read")


def test_a_module_that_the_wheel_lacks_is_told(image):
    (check_image.ROOT / "modules/training/run_fn.py").touch()
    assert content_complaints(image) == ["modules/training/run_fn.py is missing"]


@pytest.mark.parametrize(
    "file", ["modules/.env", "modules/tests/test_x.py", "modules/client.key"]
)
def test_what_must_not_be_in_an_image_is_told(image, file):
    add(image, "project", file)
    assert f"{file} must not be in an image" in content_complaints(image)


def test_the_tests_in_the_wheel_are_told(image):
    add(image, "project", "tests/test_x.py")
    assert "tests/test_x.py is no part of the project" in content_complaints(image)


@pytest.fixture
def make(tmp_path):
    """Runs `make`, with a docker that writes down what it is asked."""

    def run(*arguments, answers=True):
        fake = tmp_path / "docker"
        fake.write_text(
            f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\nexit {1 - answers}\n'
        )
        fake.chmod(0o755)
        # Not the options of a `make` that runs this test.
        env = {key: value for key, value in os.environ.items() if "MAKE" not in key}
        return subprocess.run(
            ["make", *arguments],
            cwd=ROOT,
            env=env | {"PATH": f"{tmp_path}:{env['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("target", ["image", "push-image"])
def test_an_image_without_a_name_is_refused(make, tmp_path, target):
    finished = make(target, "IMAGE=")
    assert finished.returncode != 0
    assert f"make {target} IMAGE=registry/name:tag" in finished.stderr
    assert not (tmp_path / "calls").exists()


def test_an_accelerator_that_there_is_no_image_for_is_refused(make):
    finished = make("image", "IMAGE=a/b:c", "ACCELERATOR=tpu")
    assert finished.returncode != 0
    assert "ACCELERATOR is 'tpu'; it must be cpu or gpu" in finished.stderr


def test_no_container_engine_is_told(make):
    finished = make("image", "IMAGE=a/b:c", answers=False)
    assert finished.returncode != 0
    assert "no container engine answers" in finished.stderr


def test_the_image_is_built_with_accelerator_and_revision(make, tmp_path):
    assert make("image", "IMAGE=a/b:c", "ACCELERATOR=gpu").returncode == 0
    build = (tmp_path / "calls").read_text().splitlines()[-1]
    assert build.startswith("build --tag a/b:c")
    assert "--build-arg ACCELERATOR=gpu" in build
    assert re.search(r"--build-arg REVISION=([0-9a-f]{40}(-dirty)?|unknown) \.$", build)


def test_a_check_with_another_python_is_told(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10))
    (complaint,) = check_image.same_python()
    assert f"this is Python 3.10, the image's is {STACK.python}" in complaint
    assert f"make check-image STACK={STACK.name}" in complaint
