"""Every kind of task, from its files to the verdict on its model."""

import json
import shutil
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from tfx import v1 as tfx
from tfx.orchestration.pipeline import RunOptions

from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.inputs.resolve import resolve_inputs
from pipeline.pipeline import create_pipeline
from pipeline.platforms import local_platform
from report.run_metadata import MetadataReader
from tests import exported, tiny
from tests.e2e import released as released_lib

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

ROWS = released_lib.ROWS


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


def write_labels(directory):
    """The first two labels need words of a set, and the third is in most rows."""
    write_lines(
        directory,
        lambda _, first, __: {
            "no": int(any(word in first for word in ("cat", "dog"))),
            "maybe": int("tree" in first and "sees" in first),
            "yes": int("bird" not in first),
        },
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


@pytest.fixture
def release(tmp_path):
    """Runs a task on data, with a champion or without; returns the result."""
    recipe = tiny.write_config(tmp_path / "recipe.yaml")

    def release(write_data, champion=None, **overrides):
        write_data(tmp_path / "task")
        settings = {key.replace("__", "."): value for key, value in overrides.items()}
        settings |= {"data.source": str(tmp_path / "task"), "trainer.epochs": 2}
        config = load_config(recipe, settings)
        paths = OutputPaths.of(config)
        if champion is not None:
            shutil.copytree(champion, paths.pushed / "1")
        inputs = resolve_inputs(config, paths)
        dag = create_pipeline(config, inputs, local_platform(paths, config.beam))
        options = RunOptions(to_nodes=["Report"])
        tfx.orchestration.LocalDagRunner().run(dag, run_options=options)
        reader = MetadataReader.of_file(paths.metadata)
        executions = {run.name: execution for run, execution in reader.latest_run()}
        return released_lib.Released(
            config, lambda name, key: Path(reader.outputs(executions[name])[key].uri)
        )

    return release


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
        ("sentences", write_sentences),
        ("labels", write_labels),
        ("tokens of pairs", write_tokenized),
    ],
)
def test_every_metric_of_another_kind_of_task_goes_through_a_release(
    kind, write_data, release, export
):
    task = exported.TASKS[kind]
    bounds = released_lib.bounds_of(task)
    released_lib.check(
        release(
            write_data,
            champion=export(kind).directory,
            trainer__learning_rate=0.01,
            task={
                **task.model_dump(mode="json", exclude_defaults=True),
                # The champion predicts a label from a probability of 0.5.
                **({"decision": {"maximize": "f1"}} if task.kind else {}),
            },
            evaluator__thresholds=bounds["thresholds"],
            evaluator__max_regression=bounds["max_regression"],
        )
    )
