"""A user's function decides which texts of a row people see."""

import json
import sys

import pytest

from contracts.redaction import REDACTED, Redaction, import_function
from tests.refusals import refused

ROW = {"before": "Ann called", "after": "Ann wrote"}


def redact(function):
    redaction = Redaction(function)
    return redaction.redact_row(ROW), redaction.note


def test_row_is_shown_as_the_function_returns_it():
    shown, note = redact(
        lambda row: {name: text.replace("Ann", "NAME") for name, text in row.items()}
    )
    assert shown == {"before": "NAME called", "after": "NAME wrote"}
    assert note == ""


def test_column_that_is_left_out_is_hidden_and_others_are_not_added():
    shown, note = redact(lambda row: {"before": row["before"], "name": "Ann"})
    assert shown == {"before": "Ann called", "after": REDACTED}
    assert note == ""


def test_row_that_the_function_drops_is_hidden():
    assert redact(lambda row: None) == (dict.fromkeys(ROW, REDACTED), "")


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda row: row["name"], "KeyError"),
        (lambda row: sys.exit(row["before"]), "SystemExit"),
        (lambda row: list(row), "AttributeError"),
        (lambda row: {"before": 1}, "AttributeError"),
        (lambda row: {"before": b"Ann"}, "AttributeError"),
        (lambda row: {"before": "\ud800"}, "UnicodeEncodeError"),
    ],
)
def test_row_that_the_function_fails_on_is_hidden_and_counted(function, error):
    shown, note = redact(function)
    assert shown == dict.fromkeys(ROW, REDACTED)
    expected = f"redact failed for 1 row, whose texts are not shown: {error} 1"
    assert note == expected


def test_function_cannot_change_the_row_of_the_data():
    def clear(row):
        row.clear()
        return row

    row = dict(ROW)
    assert Redaction(clear).redact_row(row) == dict.fromkeys(ROW, REDACTED)
    assert row == ROW


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "redaction_of_a_test.py").write_text(
        "NUMBER = 1\n\n\ndef hide(row):\n    return None\n"
    )
    yield str(tmp_path)
    sys.modules.pop("redaction_of_a_test", None)


def test_function_beside_a_recipe_is_imported_and_an_edit_is_seen(folder, tmp_path):
    path = "redaction_of_a_test:hide"
    assert import_function(path, folder)({"text": "Ann"}) is None
    file = tmp_path / "redaction_of_a_test.py"
    file.write_text("def hide(row):\n    return {'text': 'edited'}\n")
    parameter = json.dumps({"function": path, "directory": folder})
    redaction = Redaction.parse(parameter, "unused")
    assert redaction.redact_row({"text": "Ann"}) == {"text": "edited"}
    assert Redaction.parse("null", "unused") is None


@pytest.mark.parametrize(
    ("path", "got"),
    [
        ("hide", "hide"),
        ("no_module_of_a_test:hide", "no_module_of_a_test:hide cannot be imported: "),
        ("redaction_of_a_test:no", "redaction_of_a_test:no cannot be imported: "),
        ("redaction_of_a_test:NUMBER", "redaction_of_a_test:NUMBER"),
    ],
)
def test_function_that_cannot_be_imported_is_refused(folder, path, got):
    with refused("E-redact-not-allowed", setting="redact") as caught:
        import_function(path, folder)
    assert caught.value.got.startswith(got)


def test_file_with_the_name_of_another_module_is_refused(folder, tmp_path):
    (tmp_path / "json.py").touch()
    with refused("E-settings-refused", setting="redact"):
        import_function("json:hide", folder)
