"""Checks are imported, and their files read, before a run."""

import json
import re
import sys

import pytest

from components.model_checks import registry
from components.model_checks.checks import required_rows
from contracts import fingerprint
from contracts.records.labelled_rows import read_rows
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.inputs.resolved_checks import load_checks, resolve_checks
from tests.refusals import refused

OWN = "own_rows_of_a_test:OwnRows"
# It derives from a check that judges data, and has a file.
MODULE = """
from components.model_checks import Check, CheckResult, CheckSettings, LabelledRows
from contracts.errors import SettingError
import own_helper_of_a_test


class OwnRows(Check):
    class Settings(CheckSettings):
        limit: float = 0.5
        rows: LabelledRows | None = None

    title = own_helper_of_a_test.TITLE

    def validate(self, settings, task, slice_columns):
        if settings.limit > 1:
            raise SettingError("limit", "above 1")

    def run(self, model, data, settings):
        return CheckResult(status="passed", sentence="passed")


class Judge(OwnRows):
    def judge_data(self, settings, task, split, slices, in_train):
        yield from ()
"""
ROWS = "sentence1,sentence2,label\na cat,a dog,equivalent\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A recipe with a user's module beside it."""
    (tmp_path / "own_rows_of_a_test.py").write_text(MODULE)
    (tmp_path / "own_helper_of_a_test.py").write_text("TITLE = 'Mine'\n")
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "recipe.yaml").write_text(
        "name: tiny\ndata: {source: pairs}\nencoder: {source: bert}\n"
        "evaluator: {thresholds: {f1: 0.5}}\noutput: output\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("own_rows_of_a_test", "own_helper_of_a_test"):
        sys.modules.pop(name, None)


def resolve(folder, checks):
    config = load_config(folder / "recipe.yaml", {"checks": checks})
    sys.modules.pop("own_helper_of_a_test", None)  # edits are imported anew
    return resolve_checks(config, OutputPaths.of(config))


def test_sections_are_json_that_a_component_reads_with_rows_of_the_files(folder):
    resolved = resolve(
        folder,
        {
            OWN: {"limit": 1, "rows": "rows.csv"},
            "required_rows": {"file": str(folder / "rows.csv"), "least": 0.9},
        },
    )
    assert resolved.sections.keys() >= {OWN, "required_rows"}
    section = resolved.sections[OWN]
    (row,) = read_rows(section["rows"])
    assert (row.texts, row.label) == ({"sentence1": "a cat", "sentence2": "a dog"}, 1)
    # Equal rows are one file.
    assert resolved.sections["required_rows"]["file"] == section["rows"]
    assert resolved.rows == (("required_rows", "file"), (OWN, "rows"))
    assert resolved.directory == str(folder)
    assert resolved.modules == ("own_helper_of_a_test.py", "own_rows_of_a_test.py")
    parsed = registry.parse(resolved.as_json(), "unused")
    assert [configured.name for configured in parsed] == sorted(resolved.sections)
    (own,) = (configured for configured in parsed if configured.name == OWN)
    assert own.settings.limit == 1.0


def test_fingerprint_of_a_check_changes_with_its_code_its_imports_and_its_rows(folder):
    checks = {
        OWN: {"rows": "rows.csv"},
        "own_rows_of_a_test:Judge": {},
        "required_rows": {"file": str(folder / "rows.csv")},
    }
    first = resolve(folder, checks).fingerprints
    assert resolve(folder, checks).fingerprints == first

    def edit(name, text):
        (folder / name).write_text(text)
        changed = resolve(folder, checks).fingerprints
        return {key for key in checks if changed[key] != first[key]}

    mine = {OWN, "own_rows_of_a_test:Judge"}
    assert edit("own_helper_of_a_test.py", "TITLE = 'Yours'\n") == mine
    edit("own_helper_of_a_test.py", "TITLE = 'Mine'\n")
    assert edit("own_rows_of_a_test.py", f"{MODULE}\n# edited\n") == mine
    edit("own_rows_of_a_test.py", MODULE)
    assert edit("rows.csv", f"{ROWS}b,c,equivalent\n") == {OWN, "required_rows"}
    assert first["required_rows"] != fingerprint.of_code(required_rows.__name__)


def test_installed_module_needs_no_directory(folder):
    name = f"{required_rows.__name__}:RequiredRows"
    resolved = resolve(folder, {name: {}})
    assert resolved.directory is None
    assert resolved.modules == ()
    assert resolved.fingerprints[name]


def test_only_checks_that_judge_data_are_in_the_key_of_data_gate(folder):
    plain = resolve(folder, {OWN: {}, "own_rows_of_a_test:Judge": {}}).of_data
    assert "own_rows_of_a_test:Judge" in plain.sections
    assert "required_rows" in plain.sections
    assert OWN not in plain.sections
    assert plain.fingerprints.keys() == plain.sections.keys()
    assert plain.directory == str(folder)
    other = resolve(folder, {OWN: {"limit": 0.1}}).of_data
    assert other == resolve(folder, {OWN: {"limit": 0.2}}).of_data
    assert other.directory is None
    assert json.loads(other.as_json())["directory"] is None


@pytest.mark.parametrize(
    ("section", "fields"),
    [
        (
            {"limt": 1},
            {"setting": f"checks.{OWN}.limt", "advice": "did you mean limit?"},
        ),
        (
            {"limit": "a"},
            {"setting": f"checks.{OWN}.limit", "allowed": "a valid number"},
        ),
        ({"limit": 2}, {"setting": f"checks.{OWN}.limit", "got": "above 1"}),
        ([1], {"setting": f"checks.{OWN}"}),
    ],
)
def test_setting_of_an_own_check_is_refused_by_its_key(folder, section, fields):
    with refused("E-settings-refused", **fields):
        resolve(folder, {OWN: section})


def test_bad_row_and_module_that_cannot_be_imported_are_refused(folder):
    (folder / "rows.csv").write_text("sentence1,sentence2,label\na,b,great\n")
    got = re.compile(r"rows\.csv:2: label is 'great'; allowed are")
    with refused("E-rows-refused", setting=f"checks.{OWN}.rows", got=got):
        resolve(folder, {OWN: {"rows": "rows.csv"}})
    with refused("E-settings-refused", setting="checks.missing_module:A"):
        resolve(folder, {"missing_module:A": {}})
    (folder / "own_helper_of_a_test.py").write_text("import missing_module\n")
    got = re.compile(
        "cannot be imported: ModuleNotFoundError: No module named 'missing"
    )
    with refused("E-settings-refused", setting=f"checks.{OWN}", got=got):
        resolve(folder, {OWN: {}})


def test_recipe_is_read_without_running_code_and_ignored_checks_are_not_resolved(
    folder,
):
    (folder / "own_rows_of_a_test.py").write_text("raise SystemError\n")
    checks = {OWN: {"action": "ignore"}, "required_rows": {"action": "ignore"}}
    assert load_config(folder / "recipe.yaml", {"checks": {OWN: {}}})
    resolved = resolve(folder, checks)
    assert not {OWN, "required_rows"} & resolved.sections.keys()


def test_loading_writes_nothing(folder):
    config = load_config(
        folder / "recipe.yaml", {"checks": {OWN: {"rows": "rows.csv"}}}
    )
    loaded = {check.name: files for check, files in load_checks(config)}
    assert len(loaded[OWN]["rows"].rows) == 1
    assert not (folder / "output").exists()
