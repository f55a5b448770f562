"""Past runs as objects, and what a notebook shows of them."""

import pytest

from pipeline import compare, list_runs, load_run, predict
from tests.pipeline.operations.ui import sample_output
from tests.refusals import refused

HOSTILE = "</td><script>alert(1)</script>"


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return sample_output.write(tmp_path_factory.mktemp("runs") / "output").root


def test_runs_are_listed_and_found(output):
    runs = list_runs(output)
    assert [run.state for run in runs] == ["failed", "pushed", "pushed", "refused"]
    assert load_run("latest", output).id == runs[0].id == sample_output.FAILED
    refused_run = load_run(sample_output.REFUSED, output)
    assert refused_run.pushed is None
    assert refused_run.reason == sample_output.REASON
    shown = f"Run({refused_run.id}, refused: {sample_output.REASON})"
    assert repr(refused_run) == shown
    with refused("E-run-not-finished", setting=f"run {refused_run.id}"):
        predict(refused_run, ["a text"])
    with refused("E-output-not-found", setting="output"):
        load_run("latest", output / "other")


def test_worst_rows_have_texts_label_and_prediction(output):
    run = load_run(sample_output.SECOND, output)
    rows, expected = run.worst_rows(), run.report.worst_rows
    assert len(rows) == len(expected) > 0
    names = run.report.task.text_columns
    assert rows.loc[0, names].tolist() == expected[0].texts
    assert rows.loc[0, "label"] == expected[0].label
    assert rows["loss"].tolist() == [row.loss for row in expected]
    with refused("E-run-not-finished", got="it has no report: its state is failed"):
        load_run(sample_output.FAILED, output).worst_rows()


def test_comparison_of_objects_is_that_of_names(output):
    first, second = (
        load_run(name, output) for name in (sample_output.FIRST, sample_output.SECOND)
    )
    comparison = compare(first, second)
    by_name = compare(first.id, second.id, output=output)
    assert comparison.model_dump() == by_name.model_dump()
    assert len(comparison.changed_rows()) == len(comparison.changed)
    with refused("E-settings-refused", setting="compared", got="1 run"):
        compare(first)


def test_texts_of_users_are_escaped(output):
    first = load_run(sample_output.FIRST, output)
    comparison = compare(first, load_run(sample_output.SECOND, output))
    assert comparison.changed
    for row in comparison.changed:
        row.texts, row.label = [HOSTILE], HOSTILE
    first.record.reason = HOSTILE
    report = first.report
    report.checks[0].sentence = HOSTILE
    report.worst_rows[0].texts[0] = HOSTILE
    for shown in (comparison, first, report):
        html = shown._repr_html_()
        assert "<script>alert" not in html
        assert HOSTILE not in html
        assert len(repr(shown)) < 200
    frame = '<iframe sandbox="allow-scripts" srcdoc="&lt;!doctype html'
    assert html.startswith(frame)  # the report's


def test_checks_that_no_code_knows_have_a_line_each(output):
    shown = load_run(sample_output.SECOND, output)._repr_html_()
    assert "<b>⚠ warning</b> Exclamations: the prediction changes in 9 of 40" in shown
    assert "<b>· not applicable</b> Required rows: `file` is not set" in shown
