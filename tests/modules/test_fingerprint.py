"""Fingerprints change with what they are of, and with nothing else."""

import json
import sys

import pytest

from modules import fingerprint
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from tests import tiny


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


def edit(path):
    path.write_text(path.read_text() + "# an edit\n")


@pytest.mark.parametrize(
    ("edited", "changes"), [("a", True), ("b", True), ("c", False)]
)
def test_code_changes_with_itself_and_what_it_imports(package, edited, changes):
    before = fingerprint.of_code("modules.a.f")
    assert before == fingerprint.of_code("modules.a")
    edit(package / f"{edited}.py")
    assert (fingerprint.of_code("modules.a.f") != before) == changes


def test_training_depends_on_the_export_and_preprocessing_does_not():
    from pipeline.pipeline import PREPROCESSING_FN, RUN_FN

    assert fingerprint.of_code(RUN_FN) != fingerprint.of_code(PREPROCESSING_FN)


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
    cluster = Platform(pipeline_root="gs://b/r", training="gs://b/t", pushed="gs://b/p")

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
