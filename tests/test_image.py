"""The container image: its Dockerfile, its build context, and `make check-image`."""

import contextlib
import json
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

from contracts.fingerprint import FIRST_PARTY
from pipeline.cli import version
from tools import check_image, image_rules

ROOT = Path(__file__).parent.parent
FILES = ("Dockerfile", ".dockerignore", "LICENSE", "pyproject.toml", "setup.py")
FOLDERS = (*FIRST_PARTY, "bert_runtime", "sample_data", "serving", "stacks")
STACK = image_rules.newest_stack(ROOT)
PYTHON = "{}.{}".format(*sys.version_info)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of everything that the image is built from."""
    project = tmp_path_factory.mktemp("project")
    for name in FILES:
        shutil.copy(ROOT / name, project / name)
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, project / name, ignore=ignored)
    (project / "tools").mkdir()
    for name in ("install_image.sh", "sbom.txt"):
        shutil.copy(ROOT / "tools" / name, project / "tools")
    return project


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@contextlib.contextmanager
def edited(path, old, new):
    original = path.read_text()
    edit(path, old, new)
    yield
    path.write_text(original)


def complaints(project, rules=image_rules.RULES):
    return [problem for rule in rules for problem in rule(project)]


def image_steps(accelerator="cpu"):
    dockerfile = image_rules.read_dockerfile(ROOT, accelerator)
    return image_rules.image_steps(dockerfile)


def test_revision_of_the_build_is_the_commit_that_version_prints():
    steps = image_steps()
    revision = steps.index(("ARG", "REVISION=unknown"))
    assert ("ENV", f"{version.COMMIT_VARIABLE}=${{REVISION}}") in steps[revision:]


def test_committed_files_break_no_rule(project):
    assert complaints(project) == []


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("python:${PYTHON_VERSION}-slim", "python:slim", "prefers Python 3."),
        ("# The image of", "# syntax=docker/dockerfile:1\n#", "fetch a frontend"),
        ("BEAM_VERSION=2.", "BEAM_VERSION=1.2.", "requirements.lock has apache-beam"),
        ("PYTHON_VERSION=3.", "PYTHON_VERSION=2.", "prefers Python 3."),
        (
            "COPY stacks/1.21/requirements.lock stacks/1.21/",
            "COPY stacks/1.16/requirements.lock stacks/1.16/",
            "stacks/1.21/requirements.lock, of the newest stack, is not installed",
        ),
        ("beam_python${PYTHON_VERSION}", "beam_python3.9", "prefers Python 3."),
        ("_sdk:${BEAM_VERSION}", "_sdk:1.0", "no FROM apache/beam_python3."),
        ("COPY LICENSE", "COPY tools/lock.sh", "there is no such file"),
        ("COPY LICENSE", "COPY stacks/1.16", ".dockerignore excludes it"),
        ("COPY LICENSE", "COPY", "LICENSE: .dockerignore lets it in, but no COPY"),
    ],
)
def test_a_fault_of_the_dockerfile_is_reported(project, old, new, complaint):
    rules = (
        image_rules.no_frontend_is_fetched,
        image_rules.versions_agree,
        image_rules.context_is_what_is_copied,
    )
    with edited(project / "Dockerfile", old, new):
        assert complaint in "\n".join(complaints(project, rules))


@pytest.mark.parametrize(
    ("old", "new", "rule", "complaint"),
    [
        (
            "!modules\n",
            "",
            image_rules.context_is_what_is_copied,
            "COPY modules: .dockerignore excludes it",
        ),
        (
            "!modules\n",
            "!modules/*.py\n",
            image_rules.packages_are_in_context,
            "modules/encoder/model.py is in setup.py's",
        ),
        *(
            (old, new, image_rules.context_is_clean, f"lets in a file like {file}")
            for old, new, file in (
                ("**/.*\n", "", "components/.env"),
                ("**/*.pem\n", "", "pipeline/data/client.pem"),
                ("\n*\n", "\n.git\n", "output/model/weights"),
                ("!setup.py\n", "!setup.py\n!tests\n", "tests/test_image.py"),
            )
        ),
    ],
)
def test_a_fault_of_the_dockerignore_is_reported(project, old, new, rule, complaint):
    with edited(project / ".dockerignore", old, new):
        assert complaint in "\n".join(complaints(project, [rule]))


def test_a_new_package_outside_of_the_build_context_is_reported(project):
    (project / "plugins").mkdir()
    (project / "plugins/__init__.py").touch()
    with edited(project / "setup.py", '"serving",', '"serving", "plugins",'):
        (complaint,) = complaints(project)
    assert "plugins/__init__.py is in setup.py's packages" in complaint


def test_only_the_gpu_image_has_nvidias_libraries():
    def copied(accelerator):
        values = [v for key, v in image_steps(accelerator) if key == "COPY"]
        return re.findall(r"--from=(\w+)", "\n".join(values))

    assert copied("cpu") == ["beam", "packages", "project", "sbom"]
    gpu = ["beam", "packages", "accelerator", "project", "sbom"]
    assert copied("gpu") == gpu


def test_the_image_runs_beams_boot_as_a_numeric_user_that_is_not_root():
    steps = image_steps()
    values = dict(steps)
    assert values["USER"] == "${USER_ID}:0"
    arguments = dict(value.split("=") for key, value in steps if key == "ARG")
    assert int(arguments["USER_ID"]) > 0
    assert values["ENTRYPOINT"] == '["/opt/apache/beam/boot"]'


def test_the_folders_that_launchers_write_to_belong_to_the_user():
    # KFP's launcher (https://github.com/kubeflow/pipelines/issues/5673), Beam's boot.
    folders = ["/home/pipeline", "/gcs", "/minio", "/s3", "/opt/apache/beam-venv"]
    commands = " ".join(value for key, value in image_steps() if key == "RUN")
    assert set(folders) <= set(commands.split())


def test_the_script_that_the_check_runs_installs_every_part():
    text = (ROOT / "Dockerfile").read_text()
    prefixes = dict(re.findall(r"tools/install_image\.sh (\w+) (\S+)", text))
    assert prefixes.keys() == {"uv", "packages", "accelerator", "project", "sbom"}
    for part in ("packages", "accelerator", "project", "sbom"):
        assert f"COPY --from={part} {prefixes[part]} /usr/local\n" in text


def test_the_gpu_lock_is_what_tensorflow_requires():
    def nvidia_packages(lines, **extra):
        requirements = [Requirement(line) for line in lines if "nvidia-" in line[:7]]
        return {
            requirement.name: requirement.specifier
            for requirement in requirements
            if requirement.marker.evaluate(extra)
        }

    required = nvidia_packages(metadata.requires("tensorflow"), extra="and-cuda")
    assert len(required) == 12
    requested = (ROOT / "requirements-gpu.in").read_text().splitlines()
    assert nvidia_packages(requested) == required


@pytest.mark.parametrize(
    "lock",
    sorted((ROOT / "stacks").glob("*/gpu.lock")),
    ids=lambda path: path.parent.name,
)
def test_every_line_of_the_gpu_lock_has_its_hashes(lock):
    text = lock.read_text()
    entries = re.findall(r"^nvidia-.+\\\n    --hash=sha256:[0-9a-f]{64}", text, re.M)
    assert len(entries) == len(re.findall(r"^[a-z]", text, re.M)) == 12


def read_dependents(lock):
    """Returns by package which packages require it; `-r` stands for requirements.in."""
    dependents = {}
    for line in lock.read_text().splitlines():
        if match := re.match(r"([a-z0-9-]+)==", line):
            names = dependents.setdefault(match[1], set())
        elif match := re.match(r"    # (?:via|  ) ?([a-z0-9-]+)", line):
            names.add(match[1])
    return dependents


def test_the_installer_leaves_out_development_tools_and_what_only_they_need():
    requested = (ROOT / "requirements.in").read_text()
    _, section = requested.lower().split("\n# development.\n")
    development = set(re.findall(r"^[a-z0-9-]+", section, re.MULTILINE))
    dependents = read_dependents(ROOT / STACK.lock)
    while more := {
        name
        for name, required_by in dependents.items()
        if name not in development and required_by <= development
    }:
        development |= more
    assert "iniconfig" in development
    assert check_image.development_packages() == development


@pytest.fixture
def image(tmp_path, monkeypatch):
    """An image with a lock of one package, and a project of one module."""
    root = tmp_path / "checkout"
    for folder in ("modules", "tools", "stacks/1.16"):
        (root / folder).mkdir(parents=True)
    (root / "modules/__init__.py").touch()
    (root / ".dockerignore").touch()
    (root / "tools/install_image.sh").write_text('development="pytest"\n')
    (root / "stacks/stacks.txt").write_text(f"# Comment.\n1.16 2.17 {PYTHON} 3.1\n")
    (root / "stacks/1.16/requirements.lock").write_text("tfx==1.16\npytest==9.2\n")
    (root / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='x', packages=['modules'])\n"
    )
    monkeypatch.setattr(check_image, "ROOT", root)
    prefix = tmp_path / "usr-local"
    image = SimpleNamespace(
        context=root,
        prefix=prefix,
        site_packages=prefix / "lib/python3.11/site-packages",
        files={"packages": [], "project": []},
    )
    install(image, "packages", "tfx", "1.16", "tfx/__init__.py")
    name = version.PROJECT.replace("-", "_")
    install(image, "project", name, "1.0.0", "modules/__init__.py")
    return image


def install(image, part, name, version, *files):
    information = f"{name}-{version}.dist-info"
    files = [*files, f"{information}/METADATA", f"{information}/RECORD"]
    for file in files:
        add(image, part, file).write_text(f"Name: {name}\nVersion: {version}\n")
    record = image.site_packages / information / "RECORD"
    record.write_text("".join(f"{file},,\n" for file in files))


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
    return [problem for check in checks for problem in check(image)]


def test_a_correct_image_passes(image):
    assert content_complaints(image) == []


def test_each_fault_of_an_image_is_reported(image):
    install(image, "packages", "pytest", "9.2", "pytest/__init__.py")  # development
    install(image, "packages", "torch", "2.0", "torch/__init__.py")
    edit(check_image.ROOT / "stacks/1.16/requirements.lock", "1.16", "1.17")
    add(image, "packages", "notes.txt")
    (image.site_packages / "tfx/__init__.py").chmod(0o600)
    (check_image.ROOT / "modules/task.py").touch()
    files = ["modules/.env", "modules/client.key", "tests/test_x.py"]
    for file in files:
        add(image, "project", file)
    prefix = image.site_packages.relative_to(image.prefix)
    assert {text.removeprefix(f"{prefix}/") for text in content_complaints(image)} >= {
        "pytest 9.2 is not a locked package of the image",
        "torch 2.0 is not a locked package of the image",
        "tfx is 1.16, but the lock has 1.17",
        "notes.txt belongs to no package",
        "tfx/__init__.py is not readable for every user",
        "modules/task.py is missing",
        *(f"{file} is not part of the project" for file in files),
    }


def test_a_package_that_the_sbom_lacks_is_reported(image):
    path = image.prefix / "share/sbom/sbom.cdx.json"
    path.parent.mkdir(parents=True)
    image.files["sbom"] = [path.relative_to(image.prefix)]
    components = [
        {"name": "TFX", "version": "1.15"},
        {"name": version.PROJECT, "version": "1.0.0"},
    ]
    path.write_text(json.dumps({"components": components}))
    problems = list(check_image.sbom_lists_the_packages(image))
    assert problems == ["tfx 1.16 is missing"]
    components[0]["version"] = "1.16"
    path.write_text(json.dumps({"components": components}))
    assert list(check_image.sbom_lists_the_packages(image)) == []
    assert content_complaints(image) == []


def test_a_missing_package_is_reported(image):
    shutil.rmtree(image.site_packages / "tfx-1.16.dist-info")
    image.files["packages"] = []
    assert content_complaints(image) == ["tfx is missing"]


@pytest.fixture
def make(tmp_path):
    """Runs `make` with a fake docker that records its arguments."""

    def run(*arguments, succeeds=True):
        fake = tmp_path / "docker"
        fake.write_text(
            f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\nexit {1 - succeeds}\n'
        )
        fake.chmod(0o755)
        # Without the options of a `make` that runs this test.
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


def test_an_unknown_accelerator_is_refused(make):
    finished = make("image", "IMAGE=a/b:c", "ACCELERATOR=tpu")
    assert finished.returncode != 0
    assert "ACCELERATOR is 'tpu'; it must be cpu or gpu" in finished.stderr


def test_a_missing_container_engine_is_reported(make):
    finished = make("image", "IMAGE=a/b:c", succeeds=False)
    assert finished.returncode != 0
    assert "`docker info` fails: start a container engine" in finished.stderr


def test_the_image_is_built_with_accelerator_and_revision(make, tmp_path):
    assert make("image", "IMAGE=a/b:c", "ACCELERATOR=gpu").returncode == 0
    build = (tmp_path / "calls").read_text().splitlines()[-1]
    assert build.startswith("build --tag a/b:c")
    assert "--build-arg ACCELERATOR=gpu" in build
    assert re.search(r"--build-arg REVISION=([0-9a-f]{40}(-dirty)?|unknown) \.$", build)


def test_a_check_with_another_python_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10))
    (complaint,) = check_image.same_python()
    assert f"this is Python 3.10, the image's is {STACK.python}" in complaint
    assert f"make check-image STACK={STACK.name}" in complaint
