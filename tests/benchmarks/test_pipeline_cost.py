import datetime

import pytest

from benchmarks import pipeline_cost, spans

_ZERO = datetime.datetime(2026, 1, 2, 3, 4, 5)


def _line(second, text):
    at = _ZERO + datetime.timedelta(seconds=second)
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} INFO {text}\n"


LOG = "".join(
    _line(second, text)
    for second, text in (
        (10, "absl Component Transform is running."),
        (12.5, "absl Component Transform is finished."),
        (13, "absl Component Trainer is running."),
        (20, "absl train | step:      0 | training until step 10..."),
        (26, "modules.training.actions step 5/20 loss 0.6 rate 1.0 3.0 examples/s"),
        (
            30,
            "modules.training.actions step 10/20 loss 0.6 rate 1.0 3.0 examples/s",
        ),
        (31, "modules.training.actions step 10 evaluation loss 0.5 f1 0.8"),
        (33, "absl train | step:     10 | training until step 20..."),
        (
            37,
            "modules.training.actions step 20/20 loss 0.6 rate 1.0 3.0 examples/s",
        ),
        (40, "absl Component Trainer is finished."),
    )
)


def _at(second):
    return _ZERO.timestamp() + second


def _costs(*found):
    return {
        cost.name: cost
        for cost in pipeline_cost.split(
            pipeline_cost.read_parts(LOG, _at(0), _at(42)),
            pipeline_cost.read_loops(LOG),
            [(kind, _at(second), seconds) for kind, second, seconds in found],
        )
    }


def test_parts_cover_the_whole_run():
    costs = _costs()
    assert list(costs) == ["start", "Transform", "Trainer", "report and end"]
    assert sum(cost.seconds for cost in costs.values()) == pytest.approx(42)
    assert costs["start"].seconds == pytest.approx(10)
    assert costs["Trainer"].seconds == pytest.approx(27.5)


def test_steps_are_counted_up_to_each_evaluation_and_not_what_they_traced():
    cost = _costs((spans.TRACE, 21, 3.0), (spans.TRACE, 31, 0.5))["Trainer"]
    assert cost.steps == pytest.approx(10 + 4 - 3.0)
    assert cost.kinds[spans.TRACE] == pytest.approx(3.5)
    assert cost.work == pytest.approx(27.5 - 11 - 3.5)


def test_garbage_collection_is_told_beside_and_counted_once():
    costs = _costs((spans.IMPORT, 1, 8.0), (spans.COLLECT, 2, 2.0))
    assert costs["start"].collecting == pytest.approx(2)
    assert costs["start"].work == pytest.approx(2)


def test_cached_run_has_no_steps():
    log = _line(1, "absl Component Trainer is running.")
    log += _line(1.1, "absl Component Trainer is finished.")
    assert pipeline_cost.read_loops(log) == []


def test_table_sums_up_and_takes_the_steps_out():
    text = pipeline_cost.to_markdown(list(_costs((spans.SAVE, 38, 1.0)).values()))
    assert "| all | 42.0 | 0.0 | 0.0 | 1.0 | 14.0 | 27.0 | 0.0 |" in text
    assert "28.0 s without the steps of the training" in text


def test_checkouts_are_compared_round_by_round():
    def costs(*seconds):
        kinds = dict.fromkeys(pipeline_cost.KINDS, 0.0)
        return [[pipeline_cost.Cost("start", s, kinds, 0.0, 0.0)] for s in seconds]

    text = pipeline_cost.compare({"before": costs(10, 20), "after": costs(5, 15)})
    assert "| after | 10.0 (5.0 to 15.0) | 0.625 (0.500 to 0.750) |" in text


def test_tree_that_is_no_checkout_is_named(tmp_path):
    with pytest.raises(Exception, match="is not NAME=DIRECTORY of a checkout"):
        pipeline_cost._tree(f"here={tmp_path}")
