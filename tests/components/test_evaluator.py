"""Bounds on metrics, and the verdict.

`tests/modules/evaluation/test_eval_config.py` runs the whole Evaluator.
"""

import decimal
import json
import math
import re

import numpy as np
import pytest
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

from components.evaluator import executor, verdict
from components.evaluator.executor import add_bounds
from contracts.metrics import Rows
from contracts.records.evaluation import MetricVerdict, PairedTest, Verdict, lowest
from contracts.settings.evaluator import EvaluatorConfig
from contracts.task.definition import TaskConfig
from modules.evaluation import eval_config, resampling
from tests import exported

pytestmark = pytest.mark.slow


def limits(config, name):
    """Returns the bounds of a metric."""
    (spec,) = config.metrics_specs
    return list(spec.per_slice_thresholds[name].thresholds)


def test_bounds_hold_on_all_rows():
    config = eval_config.build_eval_config(TaskConfig())
    add_bounds(
        config,
        EvaluatorConfig(
            thresholds={"accuracy": 0.8}, max_regression={"accuracy": 0.02, "f1": 0.01}
        ),
    )
    (bound,) = limits(config, "accuracy")
    assert list(bound.slicing_specs) == [config_pb2.SlicingSpec()]
    lower = bound.threshold.value_threshold.lower_bound.value
    assert lower == lowest(0.8) == 0.8 - 1e-9
    change = bound.threshold.change_threshold
    assert change.absolute.value == lowest(-0.02)
    assert change.direction == config_pb2.MetricDirection.HIGHER_IS_BETTER
    (bound,) = limits(config, "f1")
    assert bound.threshold.value_threshold.lower_bound.value == -math.inf
    assert not limits(config, "auc")


@pytest.mark.parametrize("kind", exported.TASKS)
def test_tfma_accepts_a_bound_on_every_metric_of_a_task(kind):
    task = exported.TASKS[kind]
    config = eval_config.build_eval_config(task)
    add_bounds(
        config,
        EvaluatorConfig(thresholds=dict.fromkeys(task.metrics, 0.5)),
    )
    tfma.utils.verify_eval_config(config)
    for name in task.metrics:
        assert limits(config, name)


def test_bound_on_a_metric_that_cannot_have_one_is_refused():
    config = eval_config.build_eval_config(TaskConfig())
    with pytest.raises(
        ValueError, match=r"bounds on loss, pearson, .*one are accuracy"
    ):
        add_bounds(
            config,
            EvaluatorConfig(thresholds={"pearson": 0.5}, max_regression={"loss": 0.1}),
        )


NAN = math.nan


@pytest.mark.parametrize(
    ("value", "champion", "threshold", "regression", "failure"),
    [
        (0.8, None, 0.8, 0.1, None),
        (0.7999, None, 0.8, None, "0.7999, the threshold is 0.8000"),
        (NAN, None, 0.8, None, "nan, the threshold is 0.8000"),
        (0.85, 0.86, 0.8, 0.02, None),
        (0.83, 0.86, 0.8, 0.02, "0.8300, more than 0.0200 below the champion's 0.8600"),
        (0.1, 0.9, None, None, None),
        (0.895, 0.925, None, 0.03, None),
        (0.3, None, 0.1 + 0.2, None, None),
        (0.85 - 1e-4, None, 0.85, None, "0.8499, the threshold is 0.8500"),
        (0.84999, None, 0.85, None, "0.84999, the threshold is 0.85000"),
        (0.85 - 2e-9, None, 0.85, None, "0.849999998, the threshold is 0.850000000"),
        (
            *(0.894996, 0.925, None, 0.03),
            "0.894996, more than 0.030000 below the champion's 0.925000",
        ),
        (NAN, 0.9, None, 0.03, "nan: it cannot be compared with the champion's 0.9000"),
        (NAN, NAN, None, 0.03, "nan: it cannot be compared with the champion's nan"),
        (NAN, None, None, 0.03, "nan"),
        (0.1, NAN, None, 0.03, None),
    ],
)
def test_metric_fails_below_its_threshold_or_too_far_below_the_champion(
    value, champion, threshold, regression, failure
):
    result = MetricVerdict(
        metric="accuracy",
        value=value,
        champion=champion,
        threshold=threshold,
        max_regression=regression,
    )
    ending = re.compile(r" \[E-(below-threshold|worse-than-champion|metric-nan)\]")
    expected = [] if failure is None else [f"accuracy is {failure}"]
    assert [ending.sub("", text) for text in result.failures] == expected
    assert all(ending.search(text) for text in result.failures)


@pytest.mark.parametrize("drop", [0.005, 0.01, 0.02, 0.025, 0.03, 0.1])
def test_a_candidate_exactly_at_max_regression_is_blessed(drop):
    rows = 2000
    lost = round(drop * rows)
    assert lost / rows == drop
    for right in range(lost + 1, rows + 1):
        blessed, refused = (
            MetricVerdict(
                metric="accuracy",
                value=value / rows,
                champion=right / rows,
                max_regression=drop,
            )
            for value in (right - lost, right - lost - 1)
        )
        assert blessed.failures == []
        (failure,) = refused.failures
        value, allowed, champion = map(decimal.Decimal, re.findall(r"\d\.\d+", failure))
        assert champion - value > allowed


def paired(task, champion, model, labels):
    """Returns the test of two lists of predicted classes."""
    rows = (
        Rows.of(np.array(labels), np.eye(task.outputs)[predictions])
        for predictions in (champion, model)
    )
    return resampling.paired_test(task, *rows, task.metric)


def find_worse(tests, significance=0.05, max_regression=None, threshold=None):
    whole = tests[()]
    metric = MetricVerdict(
        metric=whole.metric,
        value=whole.b,
        champion=whole.a,
        threshold=threshold,
        max_regression=max_regression,
    )
    return verdict.find_worse(tests, significance, [metric])


def wrong(labels, rows):
    """Returns predicted classes that are wrong in some rows."""
    return [1 - label if row in rows else label for row, label in enumerate(labels)]


LABELS = [0, 1] * 100


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
def test_model_is_refused_if_it_is_worse_beyond_noise(metric):
    task = TaskConfig(metric=metric)
    worse = wrong(LABELS, range(12))
    tests = {(): paired(task, LABELS, worse, LABELS)}
    (reason,) = find_worse(tests)
    assert re.fullmatch(
        rf"{metric} is 0\.06\d? below the champion's: p = [\de.-]+ is below "
        r"evaluator\.significance \(0\.05\) \[E-worse-than-champion\]",
        reason,
    )
    assert find_worse(tests, significance=0.0) == []
    # A violated bound is reason enough.
    assert find_worse(tests, max_regression=0.01) == []
    assert find_worse(tests, threshold=0.99) == []
    for champion, model in (
        (worse, LABELS),
        (worse, worse),
        (LABELS, wrong(LABELS, range(2))),
    ):
        assert find_worse({(): paired(task, champion, model, LABELS)}) == []


def sliced(task, champion, model, labels=LABELS):
    """Returns the tests of all rows, and of slices of 40 and 160 rows."""
    keys = {"0-19": slice(0, 40), "20-39": slice(40, 200)}
    return {(): paired(task, champion, model, labels)} | {
        (("pair_length", name),): paired(task, champion[of], model[of], labels[of])
        for name, of in keys.items()
    }


def test_model_that_is_worse_in_one_slice_is_refused():
    task = TaskConfig(metric="accuracy")
    champion = wrong(LABELS, range(40, 70))
    tests = sliced(task, champion, wrong(LABELS, range(20)))
    assert tests[()].difference > 0
    (reason,) = find_worse(tests)
    assert reason.startswith(
        "in the slice pair_length 0-19 (40 rows), accuracy is 0.5000, 0.5 below the "
        "champion's 1.0000: p = 3.8e-06, multiplied by 2 slices, is below evaluator."
    )
    assert find_worse(tests, max_regression=0.5) == []
    # 6 of 40 rows have a p-value of 0.03, which is noise in one of two slices.
    assert find_worse(sliced(task, champion, wrong(LABELS, range(6)))) == []


def test_slice_is_judged_by_the_metric_of_the_task():
    """F1 rises in the slice, although more rows of the other class are wrong."""
    labels = [1] * 4 + [0] * 36 + LABELS[40:]
    champion = wrong(labels, [*range(4), *range(60, 110)])
    model = wrong(labels, range(4, 24))
    f1, accuracy = (
        sliced(TaskConfig(metric=metric), champion, model, labels)
        for metric in ("f1", "accuracy")
    )
    assert f1[(("pair_length", "0-19"),)].difference > 0
    assert find_worse(f1) == []
    assert find_worse(accuracy)


def test_scores_are_tested_on_all_rows_only():
    task = TaskConfig(metric="pearson", label_range=[0.0, 5.0])
    random = np.random.default_rng(0)
    labels = random.uniform(0, 5, 200)
    champion, model = (labels + random.normal(0, noise, 200) for noise in (0.2, 1.0))

    def compare(scores):
        rows = [Rows.of(labels, values) for values in (champion, scores)]
        return resampling.paired_test(task, *rows, "pearson")

    test = compare(model)
    (reason,) = find_worse({(): test})
    assert reason.startswith("pearson is 0.")
    assert find_worse({(): compare(champion), (("length", "0-9"),): test}) == []
    # The bounds refuse it.
    assert find_worse({(): compare(np.full(200, np.nan))}) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("significance", value) for value in (-0.1, 1.0, 5.0, math.nan)),
        ("thresholds", "accuracy"),
        ("thresholds", "[1]"),
        ("max_regression", '{"accuracy": "high"}'),
        ("max_regression", "0.8"),
    ],
)
def test_parameter_of_a_run_is_refused_as_its_setting_is(name, value):
    properties = {"thresholds": "{}", "max_regression": "{}", "significance": 0.05}
    properties |= {"settings": "{}", name: value}
    with pytest.raises(ValueError, match=rf"evaluator\.{name}"):
        executor.Executor().Do({}, {}, properties)


EQUAL = {"a": 0.9, "b": 0.9, "difference": 0, "low": 0, "high": 0, "p_value": 1}
PAIRED = PairedTest(metric="f1", rows=408, **EQUAL, method="paired bootstrap")
NOT_COMPARED = "not compared with the champion serving/1: classes a instead of b"


@pytest.mark.parametrize(
    ("champion", "settings", "summary"),
    [
        (None, {}, "no other version is served: only absolute thresholds apply"),
        (
            None,
            {"not_compared": NOT_COMPARED},
            f"{NOT_COMPARED}; only absolute thresholds apply",
        ),
        (
            "serving/1",
            {"paired": PAIRED},
            "compared with the champion serving/1: f1 is equal (408 rows)",
        ),
    ],
)
def test_summary_says_how_the_model_was_compared(tmp_path, champion, settings, summary):
    result = Verdict(
        blessed=True, splits=["eval"], champion=champion, metrics=[], **settings
    )
    result.write(str(tmp_path))
    assert Verdict.read(str(tmp_path)).summary == f"blessed; {summary}"


def test_verdict_is_read_back_as_it_was_written(tmp_path):
    metrics = [
        MetricVerdict(
            metric="f1", value=0.7, champion=0.9, threshold=0.8, max_regression=0.1
        ),
        MetricVerdict(metric="precision", value=math.inf),
    ]
    written = Verdict(
        blessed=False, splits=["eval"], champion="serving/1", metrics=metrics
    )
    written.write(str(tmp_path))
    assert Verdict.read(str(tmp_path)) == written
    content = json.loads(
        (tmp_path / Verdict.FILE).read_text(), parse_constant=pytest.fail
    )
    assert content["summary"].startswith("refused: f1 is 0.7000, the threshold is 0.8")
    assert content["summary"].endswith("compared with the champion serving/1")
    assert content["metrics"][0] == {
        "metric": "f1",
        "value": 0.7,
        "champion": 0.9,
        "threshold": 0.8,
        "max_regression": 0.1,
        "failures": metrics[0].failures,
    }


def test_verdict_of_an_earlier_release_is_read(tmp_path):
    """It had thresholds of slices and a linear model, which are checks since."""
    part = {"feature": "region", "value": "north", "rows": 40, "champion": {}}
    content = {
        "blessed": True,
        "splits": ["eval"],
        "champion": None,
        "metrics": [],
        "slices": [
            {"metric": "f1"},
            {**part, "metrics": {"f1": 0.5}, "linear": 0.4, "thresholds": {"f1": 0.3}},
        ],
        "linear_model": {"metric": "f1", "value": 0.5, "rows": 10, "paired": None},
    }
    (tmp_path / Verdict.FILE).write_text(json.dumps(content))
    (read,) = Verdict.read(str(tmp_path)).slices
    assert (read.name, read.metrics) == ("region north (40 rows)", {"f1": 0.5})
