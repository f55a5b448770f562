"""The function of `redact` is imported before a run."""

import sys

import pytest

from contracts.redaction import REDACTED, Redaction
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.inputs.resolve import resolve_inputs
from pipeline.inputs.resolved_redaction import resolve_redaction
from tests import tiny
from tests.refusals import refused

HIDE = "redaction_of_a_run:hide"


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """A recipe with a user's module beside it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "names_of_a_run.py").write_text("NAMES = ['Ann']\n")
    (tmp_path / "redaction_of_a_run.py").write_text(
        "from names_of_a_run import NAMES\n\n\ndef hide(row):\n    return None\n"
    )
    yield tiny.write_config(tmp_path / "recipe.yaml", redact=HIDE)
    for name in ("redaction_of_a_run", "names_of_a_run"):
        sys.modules.pop(name, None)


def test_function_is_resolved_with_its_files_and_without_one_is_null(recipe):
    resolved = resolve_redaction(load_config(recipe))
    assert resolved.function == HIDE
    assert resolved.directory == str(recipe.parent)
    assert resolved.modules == ("names_of_a_run.py", "redaction_of_a_run.py")
    redaction = Redaction.parse(resolved.as_json(), "unused")
    assert redaction.redact_row({"text": "Ann"}) == {"text": REDACTED}
    plain = resolve_redaction(load_config(recipe, {"redact": None}))
    assert plain.as_json() == "null"


def test_fingerprint_changes_with_the_code_and_its_imports(recipe):
    first = resolve_redaction(load_config(recipe)).fingerprint
    assert resolve_redaction(load_config(recipe)).fingerprint == first
    (recipe.parent / "names_of_a_run.py").write_text("NAMES = ['Ann', 'Bob']\n")
    assert resolve_redaction(load_config(recipe)).fingerprint != first


def test_function_that_cannot_be_imported_is_refused_before_the_run(recipe):
    config = load_config(recipe, {"redact": "redaction_of_a_run:mask"})
    paths = OutputPaths.of(config)
    with refused("E-redact-not-allowed", setting="redact"):
        resolve_inputs(config, paths)
    assert not paths.root.exists()
