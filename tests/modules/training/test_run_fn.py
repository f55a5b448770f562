"""`run_fn`, from transformed Examples to model and records."""

import csv
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from contracts.storage import files
from contracts.versions import exported_model
from modules.encoder.directory import describe_architecture, open_encoder
from modules.training import (
    checkpoints,
    model_run,
    optimization,
    run_fn,
    warm_start,
)
from report import training_part
from tests import exported, tiny
from tests.modules.training import run_arguments
from tests.modules.training.summaries import scalars

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_task")]

TASK = exported.TASKS["pairs"]  # of three classes
ROWS = 44
SPLITS = ("train", "eval", "test", "eval_mismatched")


def arguments(transformed, directory, base_model=None, **trainer):
    return run_arguments.build(
        transformed, directory, TASK, SPLITS, base_model, **trainer
    )


@pytest.fixture(scope="module")
def finished(transformed, small_task, tmp_path_factory):
    """A finished training from two seeds."""
    directory = tmp_path_factory.mktemp("finished")
    run_fn.run_fn(arguments(transformed, directory, seeds=2, seed=3))
    return directory


def read_metrics(directory):
    return json.loads((directory / "model_run" / model_run.METRICS_FILE).read_text())


def test_best_of_the_seeds_is_kept_and_all_are_reported(finished):
    content = read_metrics(finished)
    results = content["seeds"]
    assert [result["seed"] for result in results] == [3, 4]
    ranks = [
        (result["metrics"]["accuracy"], -result["metrics"]["validation_loss"])
        for result in results
    ]
    assert content["best"] == results[ranks.index(max(ranks))]
    assert results[0]["metrics"] != results[1]["metrics"]
    assert set(content["splits"]) == {"eval", "test", "eval_mismatched"}
    evaluated = content["best"]["metrics"]
    loss = evaluated.pop("validation_loss")
    before = content["calibration"]["before"]["eval"]
    assert before["loss"] == pytest.approx(loss, rel=1e-4)
    for name, value in evaluated.items():
        assert content["splits"]["eval"][name] == pytest.approx(value, rel=1e-5)


def test_temperature_of_eval_lowers_its_loss_and_is_exported(finished):
    content = read_metrics(finished)
    scaling = content["calibration"]
    assert scaling["split"] == "eval"
    assert set(scaling["after"]) == set(content["splits"])
    assert scaling["after"]["eval"]["loss"] < scaling["before"]["eval"]["loss"]
    for split, after in scaling["after"].items():
        assert content["splits"][split]["loss"] == pytest.approx(after["loss"])
    model = tf.saved_model.load(str(finished / "serving"))
    assert model.temperature.numpy() == pytest.approx(scaling["temperature"])
    assert abs(scaling["temperature"] - 1) > 0.05
    described = exported_model.read_description(str(finished / "serving"))
    assert described["temperature"] == scaling["temperature"]


def test_model_run_holds_all_records_of_every_seed(finished):
    run = finished / "model_run"
    for seed in (3, 4):
        directory = run / f"seed-{seed}"
        assert (directory / "params.yaml").is_file()
        record = files.read_json(str(directory / "record.json"))
        assert [entry["step"] for entry in record["evaluations"]] == [6, 12]
        assert record["result"]["seed"] == seed
        assert sorted(scalars(directory / "validation", "accuracy")) == [6, 12]
        assert scalars(directory / "train", "gradient_norm")
        content = files.read_json(str(directory / model_run.OPTIMIZER_FILE))
        assert set(content) <= set(optimization.OptimizationConfig().as_dict())
        optimizer = optimization.OptimizationConfig(content)
        assert optimizer.learning_rate.polynomial.initial_learning_rate == 3e-3
        assert optimization.build_optimizer(optimizer) is not None
    names = [path.name for path in run.rglob("*")]
    assert not any(name.startswith(("ckpt", "weights", ".")) for name in names)


def test_report_has_the_learning_rate_of_each_step(finished):
    training = training_part.read_training(str(finished / "model_run"))
    rates = training.learning_rates
    assert rates.x == list(range(1, 13))
    # A step of warmup, then down to 0.
    expected = [3e-3 * (12 - step) / 11 for step in rates.x]
    np.testing.assert_allclose(rates.y, expected, rtol=1e-5, atol=1e-9)
    assert training.facts["learning rate"] == (
        "0.003, polynomial over 11 steps, after 1 step of linear warmup"
    )


def test_tokens_of_the_first_batch_are_listed_and_the_report_has_their_ids(finished):
    run = finished / "model_run"
    batch = training_part.read_batch(str(run))
    with open(run / model_run.BATCH_TABLE, newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_MINIMAL))
    assert len(rows) == 8
    texts = tiny.pairs(ROWS)
    assert [sum(mask) for mask in batch.input_mask] == [int(r["length"]) for r in rows]
    for row, ids in zip(rows, batch.input_word_ids, strict=True):
        same, first, second = texts[int(row["idx"])]
        assert row["label"] == TASK.classes[2 * same]
        tokens = row["tokens"].split(" ")
        assert len(tokens) == int(row["length"])
        words = [tiny._split(text) for text in (first, second)]
        assert tokens == ["[CLS]", *words[0], "[SEP]", *words[1], "[SEP]"]
        assert tokens == [tiny.VOCAB[index] for index in ids[: len(tokens)]]


def test_predictions_of_each_split_have_ids_labels_and_probabilities(finished):
    for split in SPLITS[1:]:
        path = finished / "model_run" / "predictions" / f"{split}.tsv"
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        assert sorted(int(row["idx"]) for row in rows) == list(range(ROWS))
        for row in rows:
            probabilities = [float(row[f"probability_{c}"]) for c in TASK.classes]
            assert sum(probabilities) == pytest.approx(1, abs=1e-5)
            assert row["prediction"] == TASK.classes[int(np.argmax(probabilities))]
            assert row["label"] in TASK.classes


def recorded_by_row(directory):
    """Returns the recorded probabilities of the evaluation split, in its order."""
    path = directory / "model_run" / "predictions" / "eval.tsv"
    with open(path, newline="") as file:
        rows = {int(row["idx"]): row for row in csv.DictReader(file, delimiter="\t")}
    return [
        [float(rows[index][f"probability_{c}"]) for c in TASK.classes]
        for index in range(ROWS)
    ]


def serve(directory):
    """Returns the outputs of an exported model for the same rows."""
    model = tf.saved_model.load(str(directory / "serving"))
    texts = [pair[1:] for pair in tiny.pairs(ROWS)]
    columns = zip(TASK.text_columns, zip(*texts, strict=True), strict=True)
    return model.signatures["serving_default"](
        **{name: tf.constant(column) for name, column in columns}
    )


def test_exported_model_predicts_what_was_recorded(finished):
    outputs, recorded = serve(finished), recorded_by_row(finished)
    np.testing.assert_allclose(outputs["probabilities"].numpy(), recorded, atol=2e-6)


@pytest.fixture(scope="module")
def in_bfloat16(transformed, finished, tmp_path_factory):
    """The same training, exported in bfloat16; it is not trained again."""
    directory = tmp_path_factory.mktemp("bfloat16")
    fn_args = arguments(transformed, directory, seeds=2, seed=3)
    fn_args.custom_config["serving_precision"] = "bfloat16"
    fn_args.custom_config["checkpoints"] = str(finished / "training")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_fn, "build_trainer", None)  # a call would fail
        run_fn.run_fn(fn_args)
    return directory


@pytest.mark.nightly
def test_bfloat16_predictions_are_recorded_as_served_and_near_float32(
    finished, in_bfloat16
):
    outputs, recorded = serve(in_bfloat16), recorded_by_row(in_bfloat16)
    assert outputs["logits"].dtype == tf.float32
    np.testing.assert_allclose(outputs["probabilities"].numpy(), recorded, atol=0.02)
    float32 = recorded_by_row(finished)
    np.testing.assert_allclose(recorded, float32, atol=0.05)
    assert np.abs(np.subtract(recorded, float32)).max() > 1e-5


@pytest.mark.nightly
def test_training_starts_from_a_champion_in_bfloat16(
    transformed, in_bfloat16, tmp_path
):
    run_fn.run_fn(
        arguments(
            transformed,
            tmp_path,
            in_bfloat16 / "serving",
            epochs=1,
            learning_rate=1e-12,
        )
    )
    expected, recorded = recorded_by_row(in_bfloat16), recorded_by_row(tmp_path)
    np.testing.assert_allclose(recorded, expected, atol=0.02)


def test_second_job_of_the_same_training_is_refused(transformed, finished, tmp_path):
    shutil.copytree(finished / "training", tmp_path / "training")
    (directory,) = (tmp_path / "training").iterdir()
    with (
        checkpoints.hold_directory(str(directory)),
        pytest.raises(checkpoints.DirectoryInUseError, match=directory.name),
    ):
        run_fn.run_fn(arguments(transformed, tmp_path, seeds=2, seed=3))


def test_training_can_start_from_the_exported_model(finished, transformed):
    encoder = open_encoder(str(transformed / "encoder"))
    architecture = describe_architecture(encoder)
    expected = warm_start.describe(TASK, architecture)
    assert warm_start.find_incompatibility(str(finished / "serving"), expected) == ""


def test_checkpoint_key_depends_on_the_initial_weights(transformed, finished, tmp_path):
    fn_args = arguments(transformed, tmp_path)
    splits = run_fn.split_patterns(fn_args)
    other = tmp_path / "other"
    shutil.copytree(finished / "serving", other)
    (data,) = other.glob("variables/variables.data-*")
    data.write_bytes(data.read_bytes() + b"0")
    keys = [
        checkpoints.compute_key(fn_args.custom_config, "settings", splits, str(base))
        for base in ("", finished / "serving", other)
    ]
    assert len(set(keys)) == 3
    shutil.copytree(finished / "serving", tmp_path / "copy")
    copied = str(tmp_path / "copy")
    key = checkpoints.compute_key(fn_args.custom_config, "settings", splits, copied)
    assert key == keys[1]


def test_strategy_and_batches_follow_from_the_settings(
    transformed, tmp_path, monkeypatch
):
    class Two:
        num_replicas_in_sync = 2

    chosen = []
    monkeypatch.setattr(
        run_fn.strategies, "choose_strategy", lambda *args: chosen.append(args) or Two()
    )
    fn_args = arguments(transformed, tmp_path, strategy="tpu", tpu="mine", batch_size=7)
    message = "batch_size is 7, over all replicas; Two has 2"
    with pytest.raises(ValueError, match=message):
        run_fn.run_fn(fn_args)
    assert chosen == [("tpu", "mine")]
