"""A report shows the texts of rows as the function of `redact` returns them."""

import json

import pytest

from contracts.records.checks import CheckResult, ShownRow
from contracts.redaction import REDACTED, Redaction
from report import model_card, page
from report.redacted import redact_checks, redact_report
from tests.report import samples


def find_texts(report):
    """Returns all texts of rows of a report, and the values of its text columns."""
    rows = [row for result in report.checks for row in result.rows]
    texts = {text for row in report.worst_rows for text in row.texts}
    texts |= {text for row in rows for text in row.texts.values()}
    return texts | {
        text
        for split in report.splits
        for column in split.columns
        if column.name in report.task.text_columns
        for text, _ in column.top_values
    }


def redact(report, function):
    redaction = Redaction(function)
    redact_checks(report.checks, redaction)
    redact_report(report, redaction)
    return report


def fail(row):
    raise ValueError(str(row))


@pytest.mark.parametrize("function", [lambda row: None, fail])
def test_no_text_is_in_the_files_of_a_report(function):
    report = samples.pushed()
    for result in report.checks:
        for row in result.rows:
            row.facts.pop("why", None)  # a check chooses its facts
    texts = find_texts(report)
    before = [(row.id, row.label, row.prediction) for row in report.worst_rows]
    redact(report, function)
    assert find_texts(report) == {REDACTED}
    files = [json.dumps(report.as_json(), ensure_ascii=False), page.render(report)]
    files.append(model_card.render(report))
    assert len(texts) > 5
    assert [text for text in texts for file in files if text in file] == []
    rows = [(row.id, row.label, row.prediction) for row in report.worst_rows]
    assert rows == before
    assert not any(row.tokens for row in report.worst_rows)
    assert report.batch is None


def test_unchanged_row_keeps_its_tokens():
    report = samples.pushed()
    kept, hidden = report.worst_rows[:2]
    tokens = kept.tokens
    redact(report, lambda row: None if [*row.values()] == hidden.texts else row)
    assert tokens
    assert (kept.tokens, hidden.tokens) == (tokens, [])


def test_errors_of_the_function_are_one_note():
    report = samples.pushed()
    notes = [*report.data.notes]
    redact(report, fail)
    (note,) = report.data.notes[len(notes) :]
    assert note.startswith("redact failed for ")
    assert note.endswith(
        f" rows, whose texts are not shown: ValueError {note.split()[3]}"
    )
    assert note in page.render(report)


def test_frequent_value_is_redacted_as_a_row_with_other_texts_empty():
    report = samples.pushed()
    seen = []
    redact(report, lambda row: seen.append(row))
    first, second = report.task.text_columns
    column = next(c for c in samples.pushed().splits[0].columns if c.name == first)
    (value, _), *_ = column.top_values
    assert {first: value, second: ""} in seen


def test_changed_text_is_redacted_with_the_other_texts_of_its_row():
    row = ShownRow(
        texts={"a": "Ann", "b": "one"}, changed={"b": "two"}, facts={"id": "1"}
    )
    result = CheckResult(status="passed", sentence="passed", rows=[row])
    redact_checks(
        [result],
        Redaction(lambda row: {name: f"{row['a'][0]} {row[name]}!" for name in row}),
    )
    assert row.texts == {"a": "A Ann!", "b": "A one!"}
    assert row.changed == {"b": "A two!"}
    assert row.shown_facts == {"changed b": "A two!", "id": "1"}
