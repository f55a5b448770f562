"""The runtime's image, checked without a container engine."""

import re
import shutil

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY
from tests.deploy.runtimes import find_python
from tools import check_image, image_rules, runtime_image

DOCKERFILE = image_rules.RUNTIME_DOCKERFILE


@pytest.fixture
def checkout(tmp_path):
    """What the image is built from, with a wheel, which is not read."""
    folder = (tmp_path / DOCKERFILE).parent
    shutil.copytree((REPOSITORY / DOCKERFILE).parent, folder)
    for path in ("dist/bert_pipeline_runtime-1.0.0.whl", "tools/install_image.sh"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).touch()
    return tmp_path


def complaints(checkout):
    rules = image_rules.RUNTIME_RULES
    return "\n".join(problem for rule in rules for problem in rule(checkout))


def test_committed_files_break_no_rule(checkout):
    assert complaints(checkout) == ""


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("", "# The server", "# syntax=docker/dockerfile:1\n# The", "fetch a frontend"),
        ("", "VERSION=3.13", "VERSION=3.12", "FROM python:3.12-slim-trixie: the lock"),
        ("", "py3.13.lock", "py3.12.lock", ".dockerignore excludes it"),
        ("", "COPY dist/", "COPY other/", "there is no such file"),
        (".dockerignore", "!dist/", "!build/", ".dockerignore excludes it"),
        (".dockerignore", "\n*\n", "\n.git\n", "lets in a file like output/model"),
    ],
)
def test_a_fault_is_reported(checkout, file, old, new, complaint):
    path = checkout / f"{DOCKERFILE}{file}"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert complaint in complaints(checkout)


def test_the_script_that_the_check_runs_installs_every_part():
    text = (REPOSITORY / DOCKERFILE).read_text()
    prefixes = dict(re.findall(r"tools/install_image\.sh (\S+) (\S+)", text))
    assert prefixes.keys() == {"runtime-packages", "runtime"}
    for stage, prefix in zip(("packages", "project"), prefixes.values(), strict=True):
        assert f"COPY --from={stage} {prefix} /usr/local\n" in text


def test_another_python_is_refused(checkout, tmp_path):
    other = find_python("3.11")
    with pytest.raises(RuntimeError, match=r"is python3.11, the image's is python3.13"):
        runtime_image.RuntimeImage(checkout, tmp_path / "image", other)


@pytest.fixture(scope="module")
def model(export, tmp_path_factory):
    model = tmp_path_factory.mktemp("exported") / "model"
    arguments = ("--model", str(export("pairs").directory), "--output", str(model))
    result = CliRunner().invoke(main, ["export", "--format", "onnx", *arguments])
    assert result.exit_code == 0, result.output
    return model


@pytest.mark.nightly
@pytest.mark.usefixtures("mounts")
def test_image_is_assembled_started_and_called(model, tmp_path):
    checkout = runtime_image.copy_checkout(REPOSITORY, tmp_path / "checkout")
    image = runtime_image.RuntimeImage(checkout, tmp_path, find_python("3.13"))
    assert all(check_image.check_runtime(image, model))
    # The same image with faults.
    steps = image.steps
    image.steps = [("USER", "0:0") if key == "USER" else (key, v) for key, v in steps]
    assert "it runs as root" in list(runtime_image.serves_without_rights(image, model))
    image.steps = [(key, value.replace("/readyz", "/other")) for key, value in steps]
    (problem,) = runtime_image.health_check_finds_the_server(image, model)
    assert "it fails with status 1" in problem
    (image.site_packages / "pandas-1.dist-info").mkdir()
    (image.site_packages / "pandas-1.dist-info/METADATA").write_text(
        "Name: pandas\nVersion: 1\n"
    )
    (problem,) = check_image.runtime_packages_are_the_locks(image)
    assert "pandas 1 is not a locked package" in problem
