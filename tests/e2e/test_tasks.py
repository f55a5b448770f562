"""Whole pipelines for every kind of task."""

import csv
import json

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from pipeline.config.recipe import load_config
from pipeline.local.run import run_locally
from tests import exported, tiny

pytestmark = pytest.mark.e2e

ROWS = 48


def write(directory, files):
    directory.mkdir(parents=True)
    for name, lines in files.items():
        text = "\n".join("\t".join(map(str, line)) for line in lines) + "\n"
        (directory / name).write_text(text)


def write_cola(directory):
    """The archive's layout: no header, the sentence in the fourth column."""
    write(
        directory,
        {
            f"{split}.tsv": [
                ("gj04", label, "" if label else "*", first)
                for label, first, _ in tiny.pairs(ROWS, seed)
            ]
            for seed, split in enumerate(("train", "dev"))
        },
    )


def write_stsb(directory):
    header = ["index", "genre", "filename", "year", "old_index", "source1", "source2"]
    write(
        directory,
        {
            f"{split}.tsv": [
                (*header, "sentence1", "sentence2", "score"),
                *(
                    (index, *"abcdef", first, second, 5.0 * same - 0.01 * index * same)
                    for index, (same, first, second) in enumerate(
                        tiny.pairs(ROWS, seed)
                    )
                ),
            ]
            for seed, split in enumerate(("train", "dev"))
        },
    )


def write_mnli(directory):
    classes = ("contradiction", "entailment", "neutral")
    write(
        directory,
        {
            f"{split}.tsv": [
                ("index", "sentence1", "sentence2", "gold_label"),
                *(
                    (index, first, second, classes[same + (index % 5 == 0)])
                    for index, (same, first, second) in enumerate(
                        tiny.pairs(ROWS, seed)
                    )
                ),
            ]
            for seed, split in enumerate(("train", "dev_matched", "dev_mismatched"))
        },
    )


def write_tokenized(directory):
    """The features that `create_finetuning_data.py` writes; no gzip, no ids."""
    directory.mkdir(parents=True)
    vocab = directory.parent / "encoder" / "vocab.txt"
    for seed, split in enumerate(("train", "eval")):
        rows = exported.rows_of(
            exported.TASKS["tokens of pairs"],
            [pair[1:] for pair in tiny.pairs(ROWS, seed)],
            vocab_file=str(vocab),
        )
        path = directory / f"{split}.tf_record"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for (label, *_), row in zip(tiny.pairs(ROWS, seed), rows, strict=True):
                writer.write(exported.serialize({**row, "label_ids": [label]}))


@pytest.fixture
def run(tmp_path, console):
    """Runs a task on data; the metrics by name, the records, the pushed model."""
    recipe = tiny.write_config(tmp_path / "recipe.yaml")

    def run(write_data, **overrides):
        write_data(tmp_path / "task")
        settings = {key.replace("__", "."): value for key, value in overrides.items()}
        settings |= {"data.source": str(tmp_path / "task"), "trainer.epochs": 2}
        report = run_locally(load_config(recipe, settings), console)
        assert report.pushed is not None
        (run,) = (tmp_path / "output" / "artifacts").glob("Trainer/model_run/*")
        model = tf.saved_model.load(report.pushed).signatures["serving_default"]
        return {m.metric: m.value for m in report.verdict.metrics}, run, model

    return run


def test_cola_from_its_archive_is_judged_by_matthews_correlation(run):
    metrics, record, model = run(
        write_cola, task="cola", evaluator__thresholds={"matthews": -1.0}
    )
    recorded = json.loads((record / "metrics.json").read_text())
    assert recorded["metric"] == "matthews"
    assert metrics["matthews"] == pytest.approx(
        recorded["splits"]["eval"]["matthews"], abs=1e-6
    )
    assert model(sentence=tf.constant(["A cat."]))["class"].numpy()[0] in (
        *(b"unacceptable", b"acceptable"),
    )


def test_stsb_from_its_archive_is_a_regression(run):
    metrics, record, model = run(
        write_stsb,
        task="stsb",
        trainer__learning_rate=0.01,
        evaluator__thresholds={"pearson_spearman": -1.0},
    )
    recorded = json.loads((record / "metrics.json").read_text())["splits"]["eval"]
    for name in ("pearson", "mse"):
        assert metrics[name] == pytest.approx(recorded[name], rel=1e-3)
    # 20 of the 48 pairs are another's twins. Their scores tie, and what they are padded
    # with moves the last digit, by which a rank correlation then orders them.
    assert metrics["spearman"] == pytest.approx(recorded["spearman"], abs=0.02)
    answer = model(
        sentence1=tf.constant(["The cat."]), sentence2=tf.constant(["A cat!"])
    )
    assert list(answer) == ["score"]


def test_mnli_from_its_archive_reports_both_validation_splits(run):
    metrics, record, _ = run(
        write_mnli, task="mnli", evaluator__thresholds={"accuracy": 0.0}
    )
    recorded = json.loads((record / "metrics.json").read_text())["splits"]
    assert set(recorded) == {"eval", "eval_mismatched"}
    assert metrics["f1"] == pytest.approx(recorded["eval"]["f1"], abs=1e-6)
    for split in recorded:
        with open(record / "predictions" / f"{split}.tsv") as file:
            assert len(list(csv.DictReader(file, delimiter="\t"))) == ROWS


def test_tokenized_examples_train_a_model_that_takes_text(run):
    metrics, record, model = run(
        write_tokenized,
        task__input="tokenized",
        task__name="mrpc",
        evaluator__thresholds={"f1": 0.0},
    )
    recorded = json.loads((record / "metrics.json").read_text())["splits"]
    assert metrics["f1"] == pytest.approx(recorded["eval"]["f1"], abs=1e-6)
    answer = model(
        sentence1=tf.constant(["The cat."]), sentence2=tf.constant(["A cat!"])
    )
    assert answer["class"].numpy()[0] in (b"equivalent", b"not_equivalent")
