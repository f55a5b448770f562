"""Long texts are read in windows, whose logits are pooled."""

import numpy as np
import pytest
import tensorflow as tf

from contracts.packing import LongTextConfig, Packing
from contracts.task.definition import TaskConfig
from modules.data import inputs, preprocessing
from modules.encoder.layers import seeds_at_step
from modules.export import serving_model
from modules.training import warm_start
from modules.training.fine_tuning_task import FineTuningConfig, FineTuningTask
from tests import tiny
from tests.nightly import nightly

pytestmark = pytest.mark.slow

WINDOWS = LongTextConfig(window=10, stride=6)
LENGTHS = [3, 0, 50, 8, 9, 31]
LABELS = tf.constant([0, 1, 1, 0, 1, 0], tf.int64)
TASK = TaskConfig(text_columns=["sentence"])


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Builds the task and its model, with the same random weights each time."""
    encoder = tiny.write_encoder(tmp_path_factory.mktemp("windows") / "encoder")

    def build(pool="mean", window=WINDOWS.window, **settings):
        no_dropout = dict.fromkeys(
            ("dropout", "attention_dropout", "head_dropout"), 0.0
        )
        params = FineTuningConfig(
            init_checkpoint=str(encoder),
            window=window,
            pool=pool,
            **{"windows_in_memory": 100, **no_dropout, **settings},
        )
        task = FineTuningTask(params, TASK)
        model = task.build_model()
        random = np.random.default_rng(0)
        model.set_weights(
            [random.normal(scale=0.3, size=w.shape) for w in model.get_weights()]
        )
        return task, model

    return build


def pack(long_text):
    random = np.random.default_rng(1)
    texts = [random.integers(5, 20, length).tolist() for length in LENGTHS]
    return preprocessing.pack_segments(
        [tf.ragged.constant(texts, tf.int64)],
        Packing(max_seq_length=60, long_text=long_text),
        special_token_ids=(2, 3),
    )


def batch_of_windows(padding=0):
    packed = pack(WINDOWS)
    length = int(packed["input_word_ids"].bounding_shape()[1])
    return preprocessing.pad_inputs(*packed.values(), length + padding)


def logits_by_hand(model, pool, rows):
    """Classifies all windows as texts of their own, and pools those of each row."""
    windows = [
        [row[start : start + WINDOWS.window] for start in range(0, len(row), 10)]
        for row in rows
    ]
    ids = tf.ragged.constant([ids for row in windows for ids in row], tf.int64)
    features = preprocessing.pad_inputs(ids, tf.zeros_like(ids))
    logits = tf.split(model(features, training=False), list(map(len, windows)))
    reduce = {"mean": tf.reduce_mean, "max": tf.reduce_max}[pool]
    return tf.stack([reduce(part, axis=0) for part in logits])


def train_step(task, model, logits):
    """Returns outputs, loss and gradients of a function that returns logits."""
    targets = {inputs.LABELS: LABELS, inputs.WEIGHTS: tf.ones([len(LENGTHS)])}
    with tf.GradientTape() as tape:
        outputs = logits()
        loss = task.build_losses(targets, outputs)
    return [
        outputs,
        loss,
        *map(tf.convert_to_tensor, tape.gradient(loss, model.variables)),
    ]


@pytest.mark.parametrize("pool", [nightly("mean"), "max"])
def test_logits_loss_and_gradients_are_those_computed_by_hand(build, pool):
    task, model = build(pool, windows_in_memory=4)  # in several chunks
    plain_task, plain = build(window=0)
    specs = {
        name: tf.TensorSpec([None, None], tf.int32)
        for name in preprocessing.ENCODER_INPUTS
    }

    @tf.function(autograph=False, input_signature=[specs])
    def step(batch):
        return train_step(task, model, lambda: model(batch, training=True))

    rows = pack(WINDOWS)["input_word_ids"].to_list()
    by_hand = tf.function(
        lambda: train_step(
            plain_task, plain, lambda: logits_by_hand(plain, pool, rows)
        ),
        autograph=False,
    )
    expected = by_hand()
    predict = serving_model.TracedModel(model)
    for padding in (0, 3, 40):  # windows of padding change nothing
        batch = batch_of_windows(padding)
        for actual, value in zip(step(batch), expected, strict=True):
            np.testing.assert_allclose(actual, value, atol=1e-5)
        np.testing.assert_allclose(predict(batch), expected[0], atol=1e-5)


@pytest.mark.nightly
def test_both_passes_of_a_chunk_drop_out_the_same_units(build):
    """The slope of the loss is that of the gradients, with the same masks again."""
    rates = dict.fromkeys(("dropout", "attention_dropout", "head_dropout"), 0.3)
    task, model = build(windows_in_memory=4, **rates)
    batch, step = batch_of_windows(), tf.Variable(3, dtype=tf.int64)

    @tf.function(autograph=False)
    def run():
        with seeds_at_step(0, step):
            return train_step(task, model, lambda: model(batch, training=True))

    _, loss, *gradients = run()
    np.testing.assert_array_equal(run()[1], loss)
    norm, length = tf.linalg.global_norm(gradients), 1e-3
    weights = model.get_weights()
    losses = []
    for sign in (1, -1):
        moved = [
            weight + sign * length * gradient / norm
            for weight, gradient in zip(weights, gradients, strict=True)
        ]
        model.set_weights(moved)
        losses.append(run()[1])
    slope = (losses[0] - losses[1]) / (2 * length)
    np.testing.assert_allclose(slope, norm, rtol=0.03)


@pytest.mark.nightly
@pytest.mark.parametrize("windows", [(0, 10), (10, 0)])
def test_model_with_windows_starts_from_one_without_and_the_reverse(
    build, windows, tmp_path
):
    _, champion = build(window=windows[0])
    task, model = build(window=windows[1])
    expected = champion.get_weights()
    model.set_weights([np.zeros_like(weight) for weight in expected])
    tf.train.Checkpoint(_model=champion).write(str(tmp_path / "variables/variables"))
    warm_start.restore(model, str(tmp_path), task.build_model)
    for actual, weight in zip(model.get_weights(), expected, strict=True):
        np.testing.assert_array_equal(actual, weight)


@pytest.mark.nightly
def test_step_that_xla_compiles_is_the_same_at_fixed_lengths(build):
    lengths = inputs.fixed_lengths(Packing(max_seq_length=60, long_text=WINDOWS))
    assert lengths == [30, 50, 80, 100]
    task, model = build("max")
    _, compiled = build("max", xla=True)

    @tf.function(autograph=False, jit_compile=True)
    def step(batch):
        return train_step(task, compiled, lambda: compiled(batch, training=True))

    batch = batch_of_windows()
    batch = {
        name: tf.pad(ids, [[0, 0], [0, 100 - ids.shape[1]]])
        for name, ids in batch.items()
    }
    expected = train_step(task, model, lambda: model(batch, training=True))
    for actual, value in zip(step(batch), expected, strict=True):
        np.testing.assert_allclose(actual, value, atol=1e-5)


def test_row_without_a_token_that_fills_a_batch_has_finite_logits(build):
    _, model = build("max")
    batch = {name: tf.zeros([2, 30], tf.int32) for name in preprocessing.ENCODER_INPUTS}
    assert np.isfinite(model(batch, training=False)).all()
    empty = {name: tf.zeros([0, 0], tf.int32) for name in preprocessing.ENCODER_INPUTS}
    assert serving_model.TracedModel(model)(empty).shape == (0, 2)


def test_memory_of_a_batch_does_not_depend_on_its_windows(build, monkeypatch):
    _, model = build()
    calls = []
    classify = model.classify_windows

    def recorded(features, training=None):
        tf.py_function(
            lambda ids: calls.append(ids.shape), [features["input_mask"]], []
        )
        return classify(features, training)

    monkeypatch.setattr(model, "classify_windows", recorded)
    batch = {name: tf.ones([30, 60], tf.int32) for name in preprocessing.ENCODER_INPUTS}
    outputs = serving_model.TracedModel(model)(batch)
    assert outputs.shape == (30, 2)
    assert sum(rows for rows, _ in calls) == 30 * 6
    assert max(rows * tokens for rows, tokens in calls) == 16 * WINDOWS.window
