"""What the comparison of two recordings reports."""

import json

from click.testing import CliRunner

from tools import baseline

REPORT = {
    "created": "2027-01-01T10:00:00+00:00",
    "metrics": [{"name": "f1", "value": 0.5}, {"name": "auc", "value": 0.75}],
    "curve": [0.1, 0.2, 0.3],
}


def test_runs_that_differ_in_time_and_rounding_are_equal():
    after = {**REPORT, "created": "2027-01-02T10:00:00+00:00", "curve": [0.1, 0.2]}
    after["curve"].append(0.3 + 1e-8)
    assert baseline.find_differences(REPORT, after) == (7, [])


def test_a_changed_metric_is_named():
    after = {**REPORT, "metrics": [{"name": "f1", "value": 0.6}, REPORT["metrics"][1]]}
    _, lines = baseline.find_differences(REPORT, after)
    assert lines == ["metrics[f1].value: 0.5 -> 0.6"]


def test_a_changed_curve_is_one_line():
    _, lines = baseline.find_differences(REPORT, {**REPORT, "curve": [0.1, 0.4]})
    assert lines == ["curve[1]: 0.2 -> 0.4  (and 1 more of curve[])"]


def test_a_renamed_output_and_a_missing_task_fail(tmp_path):
    for side, name in (("before", "class"), ("after", "label")):
        (tmp_path / side).mkdir()
        content = {"signatures": {"serving_default": {"outputs": {name: "DT_INT64[]"}}}}
        (tmp_path / side / "score.json").write_text(json.dumps(content))
    (tmp_path / "before" / "sample.json").write_text('{"exit_status": 0}')
    folders = [str(tmp_path / side) for side in ("before", "after")]
    finished = CliRunner().invoke(baseline.main, ["compare", *folders])
    assert finished.exit_code == 1
    lines = finished.output.splitlines()
    assert f"sample: only {tmp_path}/before/sample.json was recorded" in lines
    outputs = "score: signatures.serving_default.outputs"
    assert f'{outputs}.class: "DT_INT64[]" -> absent' in lines
    assert f'{outputs}.label: absent -> "DT_INT64[]"' in lines
    finished = CliRunner().invoke(baseline.main, ["compare", folders[0], folders[0]])
    assert finished.exit_code == 0
