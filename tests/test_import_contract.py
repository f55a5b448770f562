"""`make lint` refuses an import against the direction of docs/architecture.md."""

import ast
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from contracts.fingerprint import FIRST_PARTY
from pipeline.config.paths import REPOSITORY

PACKAGES = (
    "benchmarks",
    "bert_runtime",
    *FIRST_PARTY,
    "sample_data",
    "serving",
    "tests",
    "tools",
)


WRONG_IMPORTS = [
    ("modules/training/loop.py", "pipeline.exit_status"),
    ("modules/training/loop.py", "report.content"),
    ("report/page.py", "ingest.rows.formats"),
    ("ingest/remote/remote_errors.py", "pipeline.config.paths"),
    ("ingest/rows/formats.py", "report.content"),
    ("prediction/predictor.py", "report.content"),
    ("prediction/predictor.py", "pipeline.beam"),
    ("components/artifacts.py", "ingest.rows.formats"),
    ("serving/tokens.py", "grpc"),
    ("serving/tokens.py", "google"),
    ("contracts/metrics.py", "tensorflow"),
    ("portable/model.py", "tensorflow"),
    ("ingest/rows/row_file.py", "apache_beam"),
    ("bert_runtime/cli/main.py", "modules.environment"),
    ("serving/loaded_versions.py", "report.page"),
    ("serving/loaded_versions.py", "ingest.rows.formats"),
    ("serving/loaded_versions.py", "components.artifacts"),
    ("serving/loaded_versions.py", "modules.environment"),
    ("contracts/storage/files.py", "modules.remote_files"),
    ("contracts/metrics.py", "contracts.verdicts"),
    ("pipeline/inputs/schema.py", "pipeline.pipeline"),
    ("modules/data/inputs.py", "modules.training.loop"),
]


@pytest.fixture(scope="module")
def refusal(tmp_path_factory):
    """What the check prints of a copy of the packages with all wrong imports."""
    tree = tmp_path_factory.mktemp("tree")
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.txt", "*.tsv")
        shutil.copytree(REPOSITORY / package, tree / package, ignore=ignored)
    shutil.copy(REPOSITORY / "pyproject.toml", tree)
    for file, wrong_import in WRONG_IMPORTS:
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
    assert finished.returncode == 1
    return finished.stdout


@pytest.mark.parametrize(("file", "wrong_import"), WRONG_IMPORTS)
def test_import_against_the_direction_is_refused(refusal, file, wrong_import):
    importer = file.removesuffix(".py").replace("/", ".")
    assert f"{importer} -> {wrong_import}" in refusal


def imported_by(paths):
    """Returns the modules that files import, also in functions."""
    imported = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported |= {f"{node.module}.{name.name}" for name in node.names}
    return imported


def test_contracts_need_the_standard_library_numpy_and_pydantic():
    """Imports in functions count, too: the runtime has no other packages."""
    allowed = {*sys.stdlib_module_names, "contracts", "numpy", "pydantic"}
    imported = imported_by((REPOSITORY / "contracts").rglob("*.py"))
    packages = {name.split(".")[0] for name in imported}
    assert "numpy" in packages
    assert packages <= allowed


def test_runtime_imports_its_own_packages_and_its_requirements():
    """Imports in functions count."""
    setup = runpy.run_path(str(REPOSITORY / "deploy" / "runtime" / "setup.py"))
    folders = [REPOSITORY / name.replace(".", "/") for name in setup["PACKAGES"]]
    files = [file for folder in folders for file in folder.glob("*.py")]
    required = {Requirement(line).name for line in setup["REQUIREMENTS"]}
    theirs = {name.replace("-", "_").removesuffix("_py") for name in required}
    # Packages of FastAPI and uvicorn, and those that only some users have.
    theirs |= {"h11", "starlette"} | {"pandas", "pyarrow"}
    ours = {name.split(".")[0] for name in setup["PACKAGES"]}
    modules = {*setup["PACKAGES"]} | {
        ".".join(file.relative_to(REPOSITORY).with_suffix("").parts) for file in files
    }

    def find_module(name):
        path = REPOSITORY / name.replace(".", "/")
        is_module = path.is_dir() or path.with_suffix(".py").is_file()
        return name if is_module else name.rpartition(".")[0]

    others = {
        name
        for name in imported_by(files)
        if not (
            find_module(name) in modules
            if (top := name.split(".")[0]) in ours
            else top in sys.stdlib_module_names or top in theirs
        )
    }
    assert len(files) > 100
    assert others == set()


# The kind of a task is asked for where the kinds are, and where their heads are.
KINDS = ("contracts", "modules/training/heads.py")
OF_A_KIND = ("is_multilabel", "is_regression", "is_binary", "label_range")


def asks_for_kind(node):
    """Whether code asks a task for its kind instead of for what follows from it."""
    match node:
        case ast.Attribute(value=ast.Name("self" | "cls")):
            return False
        case ast.Attribute(attr=attribute):
            return attribute in OF_A_KIND
        case ast.Compare(
            left=ast.Attribute(attr="classes"),
            ops=[ast.Is() | ast.IsNot()],
            comparators=[ast.Constant(None)],
        ):
            return True
        case ast.Compare(left=ast.Attribute(attr="kind", value=owner)):
            return "task" in ast.unparse(owner)
        case ast.Compare(
            left=ast.Attribute(attr="label_size" | "metric_kind" | "noun", value=owner),
            comparators=[ast.Constant()],
        ):
            return any(name in ast.unparse(owner) for name in ("task", "kind"))
    return False


def test_no_other_code_asks_for_the_kind_of_a_task():
    found = [
        f"{path.relative_to(REPOSITORY)}:{node.lineno}"
        for package in FIRST_PARTY
        for path in (REPOSITORY / package).rglob("*.py")
        if not str(path.relative_to(REPOSITORY)).startswith(KINDS)
        for node in ast.walk(ast.parse(path.read_text()))
        if asks_for_kind(node)
    ]
    templates = [
        str(path.relative_to(REPOSITORY))
        for package in (*FIRST_PARTY, "bert_runtime", "serving")
        for path in (REPOSITORY / package).rglob("*.jinja")
        if any(f".{name}" in path.read_text() for name in OF_A_KIND)
    ]
    assert [*found, *templates] == []
