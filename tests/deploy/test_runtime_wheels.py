"""The full package and the runtime are two wheels, which divide the tree by folder."""

import re
import subprocess
import sys
import zipfile

import pytest

from pipeline.config.paths import REPOSITORY
from tests.deploy import wheels

NOT_PACKAGED = {"benchmarks", "tests", "tools"}
# Of what the runtime must not need.
ONLY_IN_THE_FULL_PACKAGE = (
    "components/",
    "ingest/examples/",
    "modules/",
    "pipeline/",
    "report/",
    "serving/saved_models/",
)


def residue():
    """Returns what setuptools leaves in a tree unless it has a folder elsewhere."""
    found = [*REPOSITORY.glob("build/[bl]i[bd]*"), *REPOSITORY.glob("**/*.egg-info")]
    return {path: path.stat().st_mtime for path in found}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    before = residue()
    built = wheels.build(tmp_path_factory.mktemp("wheels"))
    assert residue() == before
    return built


def test_no_file_is_in_both_wheels(built):
    full, runtime = map(wheels.files, built)
    assert full & runtime == set()


def test_the_wheels_have_every_module_and_its_data(built):
    folders = {path.parent for path in REPOSITORY.glob("*/__init__.py")}
    files = {
        str(path.relative_to(REPOSITORY))
        for folder in folders
        if folder.name not in NOT_PACKAGED
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = set.union(*map(wheels.files, built))
    assert packed <= files
    # The sample's rows are for the repository; `bert-pipeline` reads its frames.
    assert {file.partition("/")[0] for file in files - packed} <= {"sample_data"}
    assert not [file for file in files - packed if file.endswith(".py")]


def test_the_runtime_has_no_folder_that_needs_tensorflow(built):
    _, runtime = map(wheels.files, built)
    assert {"contracts", "ingest", "portable", "prediction", "serving"} <= {
        name.partition("/")[0] for name in runtime
    }
    assert "serving/web/page.html" in runtime
    assert not [n for n in runtime if n.startswith(ONLY_IN_THE_FULL_PACKAGE)]
    assert not [name for name in runtime if re.match("prediction/.+/", name)]


def test_the_full_package_requires_the_runtime_of_its_version(built):
    full, runtime = (wheels.metadata(wheel, "METADATA") for wheel in built)
    (version,) = re.findall(r"^Version: (.+)$", runtime, re.MULTILINE)
    assert f"\nVersion: {version}\n" in full
    assert f"\nRequires-Dist: bert-pipeline-runtime=={version}\n" in full


def test_each_wheel_has_its_command(built):
    full, runtime = (wheels.metadata(wheel, "entry_points.txt") for wheel in built)
    assert "bert-pipeline = pipeline.cli.main:main" in full
    assert "bert-runtime = bert_runtime.cli.main:main" in runtime


def test_editable_packages_are_found_from_any_folder(tmp_path):
    """Setuptools' finder would hide a package below which the other wheel has some."""
    site = tmp_path / "site"
    for wheel in wheels.build(tmp_path / "wheels", "build_editable"):
        zipfile.ZipFile(wheel).extractall(site)
    script = (
        f"import site; site.addsitedir({str(site)!r})\n"
        "from importlib.util import find_spec\n"
        "for name in ('contracts', 'ingest', 'pipeline', 'prediction', 'serving'):\n"
        "    print(find_spec(name).origin)\n"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = found.stdout.splitlines()
    assert paths == [
        str(REPOSITORY / name / "__init__.py")
        for name in ("contracts", "ingest", "pipeline", "prediction", "serving")
    ]
