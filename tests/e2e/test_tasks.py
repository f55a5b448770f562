"""Every kind of task, from its files to the verdict on its model."""

import csv
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
import yaml

from components.evaluator import read_verdict
from modules import metrics
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.runs.compared_run import FinishedRun
from pipeline.runs.comparison import compare
from report.content import read_report
from tests import exported, tiny
from tests.e2e import partial_run
from tests.nightly import nightly

pytestmark = pytest.mark.e2e

ROWS = 48


def write(directory, rows_by_split):
    """Writes TSV files, one for each split."""
    directory.mkdir(parents=True)
    for split, rows in rows_by_split.items():
        lines = ["\t".join(map(str, row)) for row in rows]
        (directory / f"{split}.tsv").write_text("\n".join(lines) + "\n")


def write_sentences(directory):
    write_lines(directory, lambda _, first, __: {"label": int("tree" in first)})


def write_scores(directory):
    write_lines(
        directory, lambda same, _, second: {"sentence2": second, "label": 5.0 * same}
    )


def write_lines(directory, columns_of):
    """Writes JSON Lines."""
    directory.mkdir(parents=True)
    for seed, split in enumerate(("train", "eval")):
        with open(directory / f"{split}.jsonl", "w") as file:
            for index, (same, first, second) in enumerate(tiny.pairs(ROWS, seed)):
                texts = {"sentence": first, "sentence1": first}
                row = {"idx": index, **texts, **columns_of(same, first, second)}
                file.write(json.dumps(row) + "\n")


def write_mnli(directory):
    classes = ("contradiction", "entailment", "neutral")

    def rows(seed):
        yield "index", "sentence1", "sentence2", "gold_label"
        for index, (same, *texts) in enumerate(tiny.pairs(ROWS, seed)):
            yield index, *texts, classes[same + ("tree" in texts[1])]

    write(
        directory,
        {"train": rows(0), "dev_matched": rows(1), "dev_mismatched": rows(2)},
    )


def write_tokenized(directory):
    """The features that `create_finetuning_data.py` writes; no gzip, no ids."""
    directory.mkdir(parents=True)
    vocab = directory.parent / "encoder" / "vocab.txt"
    for seed, split in enumerate(("train", "eval")):
        rows = exported.rows_of(
            exported.TASKS["tokens of pairs"],
            [texts for _, *texts in tiny.pairs(ROWS, seed)],
            vocab_file=str(vocab),
        )
        path = directory / f"{split}.tf_record"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for (same, *texts), row in zip(tiny.pairs(ROWS, seed), rows, strict=True):
                label = same + ("tree" in texts[1])
                writer.write(exported.serialize({**row, "label_ids": [label]}))


class Released:
    """A run up to the report.

    Attributes:
      record: The directory of the `ModelRun`.
      verdict: The Evaluator's.
      metrics: The verdict's, by name.
      recorded: The Trainer's, by split and name.
      report: The report.
      pushed: The pushed version.
      predict: The signature of the exported model that takes texts.
    """

    def __init__(self, config, outputs):
        self.record = outputs("Trainer", "model_run")
        self.verdict = read_verdict(str(outputs("Evaluator", "verdict")))
        self.metrics = {m.metric: m for m in self.verdict.metrics}
        content = json.loads((self.record / "metrics.json").read_text())
        self.metric, self.recorded = content["metric"], content["splits"]
        numbers = outputs("Report", "report").parent / "report.json"
        self.report = read_report(str(numbers))
        self.pushed = Path(self.report.pushed)
        self._loaded = tf.saved_model.load(str(self.pushed))
        self.predict = self._loaded.signatures["serving_default"]
        self.run = FinishedRun(
            "run",
            config.model_dump(mode="json"),
            config.task,
            "eval",
            str(self.record),
            str(outputs("ImportExampleGen", "examples")),
        )

    def predictions(self, split):
        """Returns the rows of the table of predictions, by id."""
        with open(self.record / "predictions" / f"{split}.tsv") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        return sorted(rows, key=lambda row: int(next(iter(row.values()))))


@pytest.fixture
def release(tmp_path):
    """Runs a task on data, with a champion or without; returns the result."""
    recipe = tiny.write_config(tmp_path / "recipe.yaml")

    def release(write_data, champion=None, **overrides):
        write_data(tmp_path / "task")
        settings = {key.replace("__", "."): value for key, value in overrides.items()}
        settings |= {"data.source": str(tmp_path / "task"), "trainer.epochs": 2}
        config = load_config(recipe, settings)
        if champion is not None:
            shutil.copytree(champion, OutputPaths.of(config).pushed / "1")
        return Released(config, partial_run.run_to("Report", recipe, settings))

    return release


def check_classes(released, classes, **texts):
    """Compares what the exported model predicts with what the Trainer recorded."""
    predicted = released.predict(**{k: tf.constant(v) for k, v in texts.items()})
    rows = released.predictions("eval")
    assert [row["prediction"] for row in rows] == [
        name.decode() for name in predicted["class"].numpy()
    ]
    recorded = [[float(row[f"probability_{name}"]) for name in classes] for row in rows]
    np.testing.assert_allclose(predicted["probabilities"], recorded, atol=1e-5)


def texts_of_pairs(seed):
    _, first, second = zip(*tiny.pairs(ROWS, seed), strict=True)
    return {"sentence1": first, "sentence2": second}


@pytest.mark.nightly
def test_mnli_from_its_archive_reports_both_validation_splits(release):
    released = release(write_mnli, task="mnli", evaluator__thresholds={"accuracy": 0.0})
    assert set(released.recorded) == {"eval", "eval_mismatched"}
    assert released.metrics["f1"].value == pytest.approx(
        released.recorded["eval"]["f1"], abs=1e-6
    )
    for split in released.recorded:
        assert len(released.predictions(split)) == ROWS


@pytest.mark.parametrize(
    ("kind", "write_data"),
    [
        ("scores", write_scores),
        nightly("sentences", write_sentences),
        nightly("tokens of pairs", write_tokenized),
    ],
)
def test_every_metric_goes_through_a_release(kind, write_data, release, export):
    """It is trained, gated with a champion, resampled, compared, and on the card."""
    task = exported.TASKS[kind]
    table = metrics.of_task(task.classes)
    released = release(
        write_data,
        champion=export(kind).directory,
        trainer__learning_rate=0.01,
        task=task.model_dump(mode="json", exclude_defaults=True),
        evaluator__thresholds={name: table[name].low for name in task.metrics},
        evaluator__max_regression=dict.fromkeys(task.metrics, 1.0),
    )
    assert released.verdict.paired["metric"] == task.metric
    recorded = released.recorded["eval"]
    assert set(recorded) == set(table)
    in_report = {metric.name: metric for metric in released.report.metrics}
    compared = compare([released.run, released.run]).runs[1]
    head = yaml.safe_load((released.pushed / "README.md").read_text().split("---")[1])
    (result,) = head["model-index"][0]["results"]
    on_card = {metric["name"]: metric["value"] for metric in result["metrics"]}
    for name, metric in table.items():
        judged = released.metrics[name]
        # Equal texts tie, and the padding moves the last digit of their scores, by
        # which ranks order them.
        is_rank = "spearman" in name or name == "auc"
        tolerance = {"abs": 0.02} if is_rank else {"rel": 1e-3, "abs": 1e-5}
        assert judged.value == pytest.approx(recorded[name], **tolerance), name
        assert math.isfinite(judged.champion)
        is_bounded = bool(metric.higher_is_better)
        assert (judged.threshold is not None) == is_bounded
        assert (judged.max_regression is not None) == is_bounded
        low, high = in_report[name].interval or (judged.value, judged.value)
        assert low <= judged.value <= high
        assert compared.metrics[name].value == pytest.approx(
            recorded[name], **tolerance
        )
        if "/" not in name:
            assert compared.tests[name].difference == 0
        assert (name in on_card) == bool(metric.hub_name)
    texts = texts_of_pairs(1)
    texts = dict(zip(task.text_columns, texts.values(), strict=False))
    if task.classes:
        check_classes(released, task.classes, **texts)
    else:
        predicted = released.predict(**{k: tf.constant(v) for k, v in texts.items()})
        assert list(predicted) == ["score"]
        rows = released.predictions("eval")
        np.testing.assert_allclose(
            predicted["score"], [float(row["prediction"]) for row in rows], atol=1e-4
        )
