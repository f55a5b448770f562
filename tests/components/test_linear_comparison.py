"""The comparison of a model with a linear one, from the files of a run."""

import json
import math

import numpy as np
import pytest
from tfx.types import standard_artifacts

from components.evaluator import BaselineSettings, baseline
from modules.config.task import TaskConfig
from modules.evaluation.prediction_files import Predictions
from modules.training import model_run
from modules.verdicts import Baseline, Verdict
from tests import records, tiny
from tests.components.data_gate_runs import TOKENS_TASK

pytestmark = pytest.mark.slow

PAIRS = TaskConfig()
SCORES = TaskConfig(label_range=[0.0, 5.0])
ROWS = 200


def row(task, index, label, first, second):
    """Returns the Example of a pair."""
    if task.is_tokenized:
        ids = [[tiny.VOCAB.index(w) for w in t.split()] for t in (first, second)]
        columns = {
            "input_ids": [*ids[0], *ids[1], 0],
            "input_mask": [*[1] * len(ids[0]), *[1] * len(ids[1]), 0],
            "segment_ids": [*[0] * len(ids[0]), *[1] * len(ids[1]), 0],
            "label_ids": [label],
            "example_id": [index],
        }
    else:
        columns = {
            "sentence1": [first.encode()],
            "sentence2": [second.encode()],
            "label": [5.0 * label] if task.is_regression else [label],
            "idx": [index],
        }
    return records.example(**columns)


def write_run(root, task, ids=range(ROWS)):
    """Writes the Examples and the predictions of a model that is wrong in each row."""
    examples = standard_artifacts.Examples()
    examples.uri = str(root)
    examples.split_names = json.dumps(["train", "eval"])
    for seed, split in enumerate(("train", "eval")):
        pairs = tiny.pairs(ROWS, seed)
        if task.is_tokenized:
            pairs = [(n, *(t.lower().strip(".!") for t in ts)) for n, *ts in pairs]
        rows = [row(task, i, *pair) for i, pair in zip(ids, pairs, strict=True)]
        records.write(root / f"Split-{split}" / "data.gz", rows)
    labels = np.array([label for label, *_ in pairs])
    outputs = np.eye(2)[1 - labels]
    if task.is_regression:
        labels, outputs = 5.0 * labels, 5.0 * (1 - labels)
    # The Trainer has the rows in another order.
    order = np.random.default_rng(0).permutation(ROWS)
    predictions = Predictions(np.array(ids), labels, outputs, np.zeros(ROWS))
    predictions = Predictions(*(values[order] for values in vars(predictions).values()))
    path = str(root / "record" / "predictions" / "eval.tsv")
    model_run.write_predictions(path, task, predictions)
    return examples, str(root / "record")


def compare(task, artifacts, margin=0.0, value=0.5):
    settings = BaselineSettings(task=task, split="eval", margin=margin)
    return baseline.compare(settings, *artifacts, value)


@pytest.mark.parametrize("task", [PAIRS, SCORES, TOKENS_TASK])
def test_model_is_compared_with_a_linear_one_on_the_same_rows(tmp_path, task):
    result = compare(task, write_run(tmp_path, task))
    assert result.rows == ROWS
    assert result.metric == task.metric
    value = result.metrics[task.metric]
    assert value > 0.9
    test = result.paired
    assert (test["rows"], test["a"]) == (ROWS, pytest.approx(value))
    assert test["b"] == pytest.approx(-1 if task.is_regression else 0)
    assert result.sentence.startswith(
        f"compared with a linear model on words (200 rows of train), {task.metric} is "
    )
    (failure,) = result.failures
    assert failure.startswith(f"{task.metric} is 0.5000, and ")
    assert failure.endswith("for a linear model on words (evaluator.baseline_margin 0)")


def test_rows_without_unique_ids_are_compared_by_their_metrics(tmp_path):
    result = compare(PAIRS, write_run(tmp_path, PAIRS, ids=[0] * ROWS))
    assert result.paired is None
    assert result.sentence.endswith("train), accuracy is 0.5000 instead of 1.0000")


@pytest.mark.parametrize(
    ("value", "linear", "margin", "fails"),
    [
        (0.8, 0.8, 0.0, False),
        (0.7999, 0.8, 0.0, True),
        (0.82, 0.8, 0.02, False),
        (0.81, 0.8, 0.02, True),
        (0.79, 0.8, -0.02, False),
        (0.1, 0.8, None, False),
        (math.nan, 0.8, 0.0, True),
        (0.1, math.nan, 0.0, False),
    ],
)
def test_model_must_exceed_the_linear_one_by_the_margin(value, linear, margin, fails):
    result = Baseline(
        metric="f1",
        value=value,
        metrics={"f1": linear},
        rows=9,
        margin=margin,
        paired=None,
    )
    assert len(result.failures) == fails
    verdict = Verdict(
        blessed=not fails, splits=["eval"], champion=None, metrics=[], baseline=result
    )
    assert verdict.failures == result.failures
    assert Verdict.model_validate_json(json.dumps(verdict.as_json())).summary == (
        verdict.summary
    )
