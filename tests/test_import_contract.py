"""`make lint` refuses an import against the direction of docs/architecture.md."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from modules.fingerprint import FIRST_PARTY
from pipeline.config.paths import REPOSITORY

PACKAGES = (
    "benchmarks",
    *FIRST_PARTY,
    "sample_data",
    "serving",
    "tests",
    "tools",
)


@pytest.fixture
def tree(tmp_path):
    """A copy of the packages and of the contracts."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.txt", "*.tsv")
        shutil.copytree(REPOSITORY / package, tmp_path / package, ignore=ignored)
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "wrong_import"),
    [
        ("modules/training/loop.py", "pipeline.exit_status"),
        ("modules/training/loop.py", "report.content"),
        ("report/page.py", "ingest.config"),
        ("ingest/remote_errors.py", "pipeline.config.paths"),
        ("ingest/config.py", "report.content"),
        ("prediction/predictor.py", "report.content"),
        ("prediction/predictor.py", "pipeline.beam"),
        ("components/artifacts.py", "ingest.config"),
        ("serving/models.py", "report.page"),
        ("serving/models.py", "ingest.config"),
        ("serving/models.py", "components.artifacts"),
        ("serving/models.py", "modules.files"),
        ("pipeline/inputs/schema.py", "pipeline.pipeline"),
        ("modules/data/inputs.py", "modules.training.loop"),
    ],
)
def test_import_against_the_direction_is_refused(tree, file, wrong_import):
    with (tree / file).open("a") as source:
        source.write(f"\nimport {wrong_import}\n")
    finished = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tree,
        env={"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    importer = file.removesuffix(".py").replace("/", ".")
    assert finished.returncode == 1
    assert f"{importer} -> {wrong_import}" in finished.stdout
