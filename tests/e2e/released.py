"""What a release made of a task: every metric, and the model's predictions."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
import yaml

from pipeline.config import tfx_names
from pipeline.operations.comparison import compare
from tests import tiny

ROWS = 48


def bounds_of(task):
    """Returns settings of the Evaluator that bound every metric, and pass any model."""
    table = task.metric_table
    return {
        "thresholds": {name: table[name].low for name in task.metrics},
        "significance": 0.0,
        "max_regression": {
            name: table[name].high - table[name].low for name in task.metrics
        },
    }


class Released:
    """A run that pushed its model.

    Attributes:
      task: The task definition.
      record: The directory of the `ModelRun`.
      verdict: The Evaluator's.
      metrics: The verdict's, by name.
      recorded: The Trainer's, by split and name.
      report: The report.
      pushed: The pushed version.
      predict: The signature of the exported model that takes texts.
      run: The run.
    """

    def __init__(self, run):
        self.run = run
        self.task = run.settings.task
        self.record = Path(run.artifacts[tfx_names.MODEL_RUN].uri)
        self.verdict = run.verdict
        self.metrics = {m.metric: m for m in self.verdict.metrics}
        content = json.loads((self.record / "metrics.json").read_text())
        self.recorded = content["splits"]
        self.report = run.report
        self.pushed = run.pushed
        self._loaded = tf.saved_model.load(str(self.pushed))
        self.predict = self._loaded.signatures["serving_default"]

    def predictions(self, split):
        """Returns the rows of the table of predictions, by id."""
        with open(self.record / "predictions" / f"{split}.tsv") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        return sorted(rows, key=lambda row: int(next(iter(row.values()))))


def check(released):
    """Checks that every metric went through a release with a champion.

    It was computed in the training, gated, resampled, compared, and is on the card. The
    exported model predicts what the Trainer recorded.
    """
    task = released.task
    table = task.metric_table
    assert released.verdict.paired.metric == task.metric
    recorded = released.recorded["eval"]
    assert set(recorded) == set(table)
    compared = compare([released.run] * 2).runs[1]
    head = yaml.safe_load((released.pushed / "README.md").read_text().split("---")[1])
    (result,) = head["model-index"][0]["results"]
    on_card = {metric["name"]: metric["value"] for metric in result["metrics"]}
    for name, metric in table.items():
        judged = released.metrics[name]
        # Equal texts tie, and the padding moves the last digit of their scores, by
        # which ranks order them.
        is_rank = "spearman" in name or name.startswith("auc")
        tolerance = {"abs": 0.02} if is_rank else {"rel": 1e-3, "abs": 1e-5}
        assert judged.value == pytest.approx(recorded[name], **tolerance), name
        assert math.isfinite(judged.champion)
        is_bounded = bool(metric.higher_is_better)
        assert (judged.threshold is not None) == is_bounded
        assert (judged.max_regression is not None) == is_bounded
        low, high = released.report.intervals.get(name, (judged.value, judged.value))
        assert low <= judged.value <= high
        assert compared.metrics[name].value == pytest.approx(
            recorded[name], **tolerance
        )
        if "/" not in name:
            assert compared.tests[name].difference == 0
        assert (name in on_card) == bool(metric.hub_name)
    _, *texts = zip(*tiny.pairs(ROWS, seed=1), strict=True)
    texts = dict(zip(task.text_columns, texts, strict=False))
    predicted = released.predict(**{k: tf.constant(v) for k, v in texts.items()})
    rows = released.predictions("eval")
    if task.classes:
        if task.kind:
            names = map(task.describe_label, predicted["labels"].numpy())
        else:
            names = (name.decode() for name in predicted["class"].numpy())
        assert [row["prediction"] for row in rows] == list(names)
        recorded = [
            [float(row[f"probability_{name}"]) for name in task.classes] for row in rows
        ]
        np.testing.assert_allclose(predicted["probabilities"], recorded, atol=1e-5)
    else:
        assert list(predicted) == ["score"]
        np.testing.assert_allclose(
            predicted["score"], [float(row["prediction"]) for row in rows], atol=1e-4
        )
