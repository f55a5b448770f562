"""Every kind of task, from its files to the verdict on its model."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from components.evaluator import read_verdict
from tests import exported, tiny
from tests.e2e import partial_run

pytestmark = pytest.mark.e2e

ROWS = 48


def write(directory, rows_by_split):
    """Writes TSV files, one for each split."""
    directory.mkdir(parents=True)
    for split, rows in rows_by_split.items():
        lines = ["\t".join(map(str, row)) for row in rows]
        (directory / f"{split}.tsv").write_text("\n".join(lines) + "\n")


def write_cola(directory):
    """The archive's layout: no header, the sentence in the fourth column."""

    def rows(seed):
        for _, sentence, _ in tiny.pairs(ROWS, seed):
            label = int("tree" in sentence)
            yield "gj04", label, "" if label else "*", sentence

    write(directory, {"train": rows(0), "dev": rows(1)})


def write_stsb(directory):
    header = ["index", "genre", "filename", "year", "old_index", "source1", "source2"]

    def rows(seed):
        yield *header, "sentence1", "sentence2", "score"
        for index, (same, *texts) in enumerate(tiny.pairs(ROWS, seed)):
            yield index, *"abcdef", *texts, (5.0 - 0.01 * index) * same

    write(directory, {"train": rows(0), "dev": rows(1)})


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
            for (label, *_), row in zip(tiny.pairs(ROWS, seed), rows, strict=True):
                writer.write(exported.serialize({**row, "label_ids": [label]}))


class Trained:
    """A run up to the Evaluator.

    Attributes:
      record: The directory of the `ModelRun`.
      verdict: The Evaluator's.
      metrics: The verdict's, by name.
      recorded: The Trainer's, by split and name.
      predict: The signature of the exported model that takes texts.
    """

    def __init__(self, outputs):
        self.record = outputs("Trainer", "model_run")
        self.verdict = read_verdict(str(outputs("Evaluator", "verdict")))
        self.metrics = {m.metric: m.value for m in self.verdict.metrics}
        content = json.loads((self.record / "metrics.json").read_text())
        self.metric, self.recorded = content["metric"], content["splits"]
        model = outputs("Trainer", "model") / "Format-Serving"
        self._loaded = tf.saved_model.load(str(model))
        self.predict = self._loaded.signatures["serving_default"]

    def predictions(self, split):
        """Returns the rows of the table of predictions, by id."""
        with open(self.record / "predictions" / f"{split}.tsv") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        return sorted(rows, key=lambda row: int(next(iter(row.values()))))


@pytest.fixture
def train(tmp_path):
    """Trains a task on data; returns what became of it."""
    recipe = tiny.write_config(tmp_path / "recipe.yaml")

    def train(write_data, **overrides):
        write_data(tmp_path / "task")
        settings = {key.replace("__", "."): value for key, value in overrides.items()}
        settings |= {"data.source": str(tmp_path / "task"), "trainer.epochs": 2}
        return Trained(partial_run.run_to("Evaluator", recipe, settings))

    return train


def check_classes(trained, classes, **texts):
    """Compares what the exported model predicts with what the Trainer recorded."""
    predicted = trained.predict(**{k: tf.constant(v) for k, v in texts.items()})
    rows = trained.predictions("eval")
    assert [row["prediction"] for row in rows] == [
        name.decode() for name in predicted["class"].numpy()
    ]
    recorded = [[float(row[f"probability_{name}"]) for name in classes] for row in rows]
    np.testing.assert_allclose(predicted["probabilities"], recorded, atol=1e-5)


def texts_of_pairs(seed):
    _, first, second = zip(*tiny.pairs(ROWS, seed), strict=True)
    return {"sentence1": first, "sentence2": second}


def test_cola_from_its_archive_is_judged_by_matthews_correlation(train):
    trained = train(write_cola, task="cola", evaluator__thresholds={"matthews": -1.0})
    assert trained.metric == "matthews"
    assert trained.metrics["matthews"] == pytest.approx(
        trained.recorded["eval"]["matthews"], abs=1e-6
    )
    for kind in ("precision", "recall", "f1"):
        metric = f"{kind}/unacceptable"
        assert trained.metrics[metric] == trained.recorded["eval"][metric]
    sentences = texts_of_pairs(1)["sentence1"]
    check_classes(trained, ["unacceptable", "acceptable"], sentence=sentences)


def test_stsb_from_its_archive_is_a_regression(train):
    trained = train(
        write_stsb,
        task="stsb",
        trainer__learning_rate=0.01,
        evaluator__thresholds={"pearson_spearman": -1.0},
    )
    recorded = trained.recorded["eval"]
    for name in ("pearson", "mse"):
        assert trained.metrics[name] == pytest.approx(recorded[name], rel=1e-3)
    # 20 of the 48 pairs occur twice. Their scores tie, and the padding moves their last
    # digit, by which a rank correlation then orders them.
    assert trained.metrics["spearman"] == pytest.approx(recorded["spearman"], abs=0.02)
    texts = {key: tf.constant(column) for key, column in texts_of_pairs(1).items()}
    predicted = trained.predict(**texts)
    assert list(predicted) == ["score"]
    rows = trained.predictions("eval")
    np.testing.assert_allclose(
        predicted["score"], [float(row["prediction"]) for row in rows], atol=1e-4
    )


def test_mnli_from_its_archive_reports_both_validation_splits(train):
    trained = train(write_mnli, task="mnli", evaluator__thresholds={"accuracy": 0.0})
    assert set(trained.recorded) == {"eval", "eval_mismatched"}
    assert trained.metrics["f1"] == pytest.approx(
        trained.recorded["eval"]["f1"], abs=1e-6
    )
    for split in trained.recorded:
        assert len(trained.predictions(split)) == ROWS


def test_tokenized_examples_train_a_model_that_takes_text(train):
    trained = train(
        write_tokenized,
        task__input="tokenized",
        task__name="mrpc",
        evaluator__thresholds={"f1": 0.0},
    )
    assert trained.metrics["f1"] == pytest.approx(
        trained.recorded["eval"]["f1"], abs=1e-6
    )
    check_classes(trained, ["not_equivalent", "equivalent"], **texts_of_pairs(1))
