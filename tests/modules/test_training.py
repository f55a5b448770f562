"""The optimizer, the strategy and the loop."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from modules import encoder as encoder_lib
from modules import environment, training
from modules.task import PairClassificationTask
from pipeline.config import TrainerConfig
from tests import tiny

STEPS = 6
ROWS = 24


@pytest.fixture(autouse=True, scope="module")
def fast_tracing():
    environment.keep_autograph_out_of_keras()


@pytest.fixture
def task(tmp_path):
    directory = tiny.write_encoder(tmp_path / "encoder")
    encoder = encoder_lib.open_encoder(str(directory))
    return PairClassificationTask(encoder=encoder, classes=2, dropout=0.1)


def batches(repeat):
    random = np.random.default_rng(0)
    inputs = {
        "input_word_ids": random.integers(5, 20, size=(ROWS, 8), dtype=np.int32),
        "input_mask": np.ones((ROWS, 8), np.int32),
        "input_type_ids": np.zeros((ROWS, 8), np.int32),
    }
    labels = (inputs["input_word_ids"][:, 1] % 2).astype(np.int64)
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(8)
    return dataset.repeat() if repeat else dataset


def build(task, config):
    return training.build_trainer(
        task,
        config,
        train_steps=STEPS,
        train_batches=batches(repeat=True),
        eval_batches=batches(repeat=False),
    )


def test_rate_rises_to_its_peak_over_the_warmup_and_falls_to_zero():
    config = TrainerConfig(learning_rate=1e-3, warmup_fraction=0.1)
    rate = training.build_optimizer(config, train_steps=100).learning_rate
    rates = [float(rate(step)) for step in (0, 5, 10, 55, 100)]
    np.testing.assert_allclose(rates, [0, 5e-4, 1e-3, 5e-4, 0], atol=1e-9)


def test_without_warmup_the_rate_starts_at_its_peak():
    config = TrainerConfig(learning_rate=1e-3, warmup_fraction=0.0)
    rate = training.build_optimizer(config, train_steps=100).learning_rate
    assert float(rate(0)) == pytest.approx(1e-3)


def test_weight_decay_spares_layer_norm_and_biases_alone(task):
    optimizer = training.build_optimizer(TrainerConfig(), train_steps=STEPS)
    names = [variable.name for variable in task.build_model().trainable_variables]
    decayed = {name for name in names if optimizer._do_use_weight_decay(name)}
    spared = set(names) - decayed
    assert all("layer_norm" in name or "bias" in name for name in spared)
    assert len(spared) == 2 + tiny.LAYERS * 10 + 2  # embeddings, layers, pooler, head
    assert any("word_embeddings" in name for name in decayed)


def test_gradients_are_clipped_to_the_global_norm():
    config = TrainerConfig(
        gradient_clip_norm=0.5, weight_decay=0.0, warmup_fraction=0.0
    )
    optimizer = training.build_optimizer(config, train_steps=STEPS)
    weights = tf.Variable([1.0, 1.0])
    optimizer.apply_gradients([(tf.constant([30.0, 40.0]), weights)])
    # Adam's first moment after one step is (1 - beta_1) times the gradient.
    np.testing.assert_allclose(
        optimizer.get_slot(weights, "m").numpy(), [0.03, 0.04], rtol=1e-5
    )


def test_training_restores_the_encoder_learns_evaluates_and_keeps_checkpoints(
    task, tmp_path, caplog
):
    config = TrainerConfig(batch_size=8, learning_rate=1e-2)
    trainer = build(task, config)
    trained = {v.name: v.numpy() for v in trainer.model.variables}
    with caplog.at_level(logging.INFO, logger="modules"):
        training.train_and_evaluate(
            trainer,
            tf.distribute.get_strategy(),
            directory=str(tmp_path / "run"),
            train_steps=STEPS,
            interval=3,
        )
    assert trainer.global_step.numpy() == STEPS
    records = [r for r in caplog.records if r.name == training.logger.name]
    lines = [record.getMessage() for record in records]
    assert [line.split(" loss")[0] for line in lines] == [
        "step 3/6",
        "step 3 evaluation",
        "step 6/6",
        "step 6 evaluation",
    ]
    checkpoints = tf.train.get_checkpoint_state(str(tmp_path / "run"))
    assert len(checkpoints.all_model_checkpoint_paths) == 2
    for split in ("train", "validation"):
        assert list((tmp_path / "run" / split).glob("events.out.tfevents.*"))
    changed = [
        v.name
        for v in trainer.model.variables
        if not np.array_equal(v.numpy(), trained[v.name])
    ]
    assert len(changed) == len(trained)


def test_encoder_is_restored_before_the_first_step(task, tmp_path):
    trainer = build(task, TrainerConfig())
    training.train_and_evaluate(
        trainer,
        tf.distribute.get_strategy(),
        directory=str(tmp_path),
        train_steps=0,
        interval=1,
    )
    table = trainer.model.checkpoint_items["encoder"].get_embedding_table()
    expected = tiny.hugging_face_tensors()["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(table.numpy(), expected)


@pytest.mark.parametrize("name", ["auto", "one_device"])
def test_machine_without_accelerators_trains_on_one_device(name):
    strategy = training.choose_strategy(name)
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)
