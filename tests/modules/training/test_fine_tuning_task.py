"""The fine-tuning task, alone and in every method of the Model Garden's trainer."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.modeling.optimization import legacy_adamw

from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TaskConfig
from modules.data import inputs
from modules.data.preprocessing import ENCODER_INPUTS
from modules.encoder.layers import Dropout, seeds_at_step
from modules.encoder_files import EncoderError
from modules.training import computation, experiment
from modules.training import fine_tuning_trainer as trainer_lib
from modules.training.fine_tuning_task import (
    FineTuningConfig,
    FineTuningTask,
)
from tests import tiny
from tests.modules.training.small_model import SmallTask
from tests.nightly import nightly
from tests.refusals import refused

pytestmark = pytest.mark.slow

PAIRS = TaskConfig()
SCORES = TaskConfig.model_validate({"label_range": [0.0, 5.0]})
CLASSES = TaskConfig(classes=["a", "b", "c"])
LABELS = TaskConfig(kind="multilabel", classes=["same", "cat"])


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return tiny.write_encoder(tmp_path_factory.mktemp("task") / "encoder")


def build_task(encoder, definition=PAIRS, **settings):
    """Builds a task without a model."""
    params = FineTuningConfig(init_checkpoint=str(encoder), **settings)
    return FineTuningTask(params, definition)


def build_trainer(directory, task=PAIRS, task_class=FineTuningTask, **settings):
    """Builds a trainer of the tiny encoder, or of a bag of words."""
    tf_keras.utils.set_random_seed(0)
    task, _, params = tiny.build_experiment(directory, task, rows=44, **settings)
    trainer = trainer_lib.build_trainer(task_class(params.task, task), params)
    trainer.initialize()
    return trainer


@pytest.fixture
def build(tmp_path):
    return lambda task=PAIRS, **settings: build_trainer(tmp_path, task, **settings)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    """A trainer that no test trains."""
    return build_trainer(tmp_path_factory.mktemp("untrained"), dropout=0.5)


def test_pre_trained_encoder_is_restored_by_initialize(untrained):
    table = untrained.model.checkpoint_items["encoder"].get_embedding_table()
    expected = tiny.hugging_face_tensors()["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(table.numpy(), expected)


@pytest.mark.parametrize(
    ("task", "metric", "task_class"),
    [
        (PAIRS, "f1", SmallTask),
        nightly(PAIRS, "f1", FineTuningTask),
        nightly(CLASSES, "accuracy", SmallTask),
        (SCORES, "pearson_spearman", SmallTask),
        (LABELS, "micro_f1", SmallTask),
    ],
)
def test_each_kind_of_task_trains_and_is_evaluated(build, task, metric, task_class):
    trainer = build(task, task_class=task_class, learning_rate=1e-3)
    if task.classes is None:
        # An untrained model predicts the mean, and so small a model learns no more.
        trainer.model.layers[-1].bias.assign([1.0])
    before = trainer.evaluate(tf.constant(-1))
    for _ in range(3):
        output = trainer.train(tf.constant(6))
    after = trainer.evaluate(tf.constant(-1))
    assert after["validation_loss"] < before["validation_loss"]
    assert metric in after
    assert float(output["gradient_norm"]) > 0
    assert float(output["examples"]) == 44  # 5 batches of 8 and one of 4


@pytest.mark.parametrize("class_weights", [None, {"cat": 9.0}])
def test_labels_are_as_probable_at_first_as_in_the_training_split(
    tmp_path, class_weights
):
    trainer = build_trainer(tmp_path, LABELS, class_weights=class_weights)
    data = trainer.config.task.train_data.replace(is_training=False)
    rows = trainer.task.collect(trainer_lib.predict(trainer.task, trainer.model, data))
    np.testing.assert_allclose(
        rows.outputs, np.tile(rows.labels.mean(axis=0), [44, 1]), atol=0.06
    )


def test_loss_of_a_small_batch_is_the_mean_of_its_own_rows(encoder):
    task = build_task(encoder)
    targets = {
        inputs.LABELS: tf.constant([0, 1, 1, 0], tf.int64),
        inputs.WEIGHTS: tf.constant([1.0, 1.0, 0.0, 0.0]),
    }
    logits = tf.constant([[2.0, 0.0], [0.0, 1.0], [9.0, 0.0], [0.0, 9.0]])
    expected = np.log(1 + np.exp([-2.0, -1.0])).mean()
    assert float(task.build_losses(targets, logits)) == pytest.approx(expected)


@pytest.mark.parametrize("std", [1.0, 4.0])
def test_squared_error_of_standardized_scores_is_the_loss(encoder, std):
    task = build_task(encoder, SCORES, score_scale=[2.0, std])
    targets = {
        inputs.LABELS: tf.constant([1.0, 2.0]),
        inputs.WEIGHTS: tf.constant([1.0, 1.0]),
    }
    loss = task.build_losses(targets, tf.constant([[2.0], [5.0]]))
    assert float(loss) == pytest.approx((1 + 9) / 2 / std**2)


def test_score_is_in_the_units_of_the_labels(encoder):
    model = build_task(encoder, SCORES, score_scale=[2.0, 4.0]).build_model()
    projection = model.classifier.out_proj
    projection.set_weights([np.zeros([tiny.HIDDEN, 1]), np.array([0.5])])
    score = model(dict.fromkeys(ENCODER_INPUTS, tf.ones([1, 3], tf.int32)))
    assert score.numpy().tolist() == [[0.5 * 4 + 2]]


@pytest.mark.parametrize(
    ("limit", "expected"), [(0.5, [0.3, 0.4]), (None, [30.0, 40.0])]
)
def test_gradients_are_clipped_to_the_global_norm_if_there_is_a_limit(
    encoder, limit, expected
):
    task = build_task(encoder, gradient_clip_norm=limit)
    weights = tf.Variable([1.0, 1.0])
    ((clipped, _),) = task.transform_gradients([(tf.constant([30.0, 40.0]), weights)])
    np.testing.assert_allclose(clipped.numpy(), expected, rtol=1e-5)


def test_sparse_gradient_moves_the_weights_as_the_dense_one_does(encoder):
    task = build_task(encoder, gradient_clip_norm=100.0)
    rows = tf.IndexedSlices(
        tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        tf.constant([3, 0, 3]),  # a word that comes twice counts twice
        tf.constant([5, 2]),
    )
    weights = [tf.Variable(tf.ones([5, 2])) for _ in range(2)]
    for variable, transform in zip(
        weights, (task.transform_gradients, list), strict=True
    ):
        optimizer = legacy_adamw.AdamWeightDecay(0.1, weight_decay_rate=0.01)
        for _ in range(3):
            # A dense gradient of ours, and upstream's sparse one.
            pairs = transform([(rows, variable)])
            optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)
    assert isinstance(task.transform_gradients([(rows, weights[0])])[0][0], tf.Tensor)
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)


def test_evaluation_does_not_drop_out(untrained):
    losses = [untrained.evaluate(tf.constant(-1))["validation_loss"] for _ in range(2)]
    assert losses[0] == losses[1]


def test_evaluation_counts_every_row_once_and_returns_them_in_their_order(untrained):
    batches = trainer_lib.predict(
        untrained.task, untrained.model, untrained.config.task.validation_data
    )
    assert untrained.task.collect(batches).ids.tolist() == list(range(44))


def test_dropout_follows_from_the_seed_and_the_step(untrained):
    task, model, optimizer = untrained.task, untrained.model, untrained.optimizer
    batch = next(iter(task.build_inputs(untrained.config.task.train_data)))

    @tf.function(autograph=False)
    def loss(seed):
        with seeds_at_step(seed, optimizer.iterations):
            logits = model(batch[0], training=True)
        return task.build_losses(batch[1], logits)

    def losses(seed, steps):
        for step in steps:
            optimizer.iterations.assign(step)
            yield float(loss(seed))

    first = list(losses(0, range(4)))
    assert len(set(first)) == 4
    assert list(losses(0, [2, 3])) == first[2:]  # a graph that has drawn before
    assert not set(losses(1, range(4))) & set(first)
    optimizer.iterations.assign(0)


@pytest.mark.parametrize("frozen", [1, nightly(tiny.LAYERS)])
def test_frozen_layers_stay_as_pre_trained(build, frozen):
    trainer = build(frozen_layers=frozen, learning_rate=1e-2, warmup_fraction=0.0)
    before = {v.name: v.numpy() for v in trainer.model.variables}
    # Without a graph, whose tracing would take longer than two steps.
    for batch in trainer.train_dataset.take(2):
        trainer.task.train_step(batch, trainer.model, trainer.optimizer)
    # Only rounding errors move the bias of the keys: a softmax does not depend on it.
    names = [name for name in before if not name.endswith("key/bias:0")]
    after = {variable.name: variable.numpy() for variable in trainer.model.variables}
    same = {name for name in names if np.array_equal(after[name], before[name])}
    expected = {
        name
        for name in names
        if "embedding" in name
        or any(f"layer_{index}/" in name for index in range(frozen))
    }
    assert same == expected


RATES = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3}


@pytest.mark.parametrize(
    ("configured", "setting", "expected"),
    [
        # The Model Garden drops out before the head and in it, Hugging Face once.
        ({}, None, (0.1, 0.1, 0.19)),
        (RATES, None, (0.2, 0.3, 0.36)),
        ({**RATES, "classifier_dropout": 0.4}, None, (0.2, 0.3, 0.4)),
        ({**RATES, "classifier_dropout": None}, None, (0.2, 0.3, 0.36)),
        (RATES, 0.5, (0.5, 0.5, 0.75)),
    ],
)
def test_dropout_rates_of_the_encoder_apply_without_the_setting(
    tmp_path, configured, setting, expected
):
    path = tiny.write_encoder(tmp_path / "encoder") / "config.json"
    path.write_text(json.dumps({**tiny.CONFIG, **configured}))
    _, _, params = tiny.build_experiment(tmp_path, rows=2, dropout=setting)
    rates = [
        getattr(params.task, f"{name}dropout") for name in ("", "attention_", "head_")
    ]
    assert rates == pytest.approx(expected)


def test_each_layer_drops_out_at_its_rate(encoder):
    task = build_task(encoder, dropout=0.2, attention_dropout=0.3, head_dropout=0.4)
    model = task.build_model()
    network = model.checkpoint_items["encoder"]
    for block in network.transformer_layers:
        assert block._attention_layer._dropout_layer.rate == 0.3
        assert block._attention_dropout.rate == block._output_dropout.rate == 0.2
    assert [layer.rate for layer in network.layers if isinstance(layer, Dropout)] == [
        0.2
    ]
    assert model.classifier.dropout.rate == 0.4


def test_invalid_dropout_rate_of_an_encoder_is_refused(tmp_path):
    path = tiny.write_encoder(tmp_path / "encoder") / "config.json"
    path.write_text(json.dumps({**tiny.CONFIG, "hidden_dropout_prob": 10}))
    fields = {"setting": str(path), "got": "hidden_dropout_prob 10"}
    with refused("E-settings-refused", EncoderError, allowed="0 to below 1", **fields):
        experiment.check_settings(TrainerConfig(), str(path.parent))
    experiment.check_settings(TrainerConfig(dropout=0.1), str(path.parent))


SEVERAL = {"strategy": "parameter_server"}
AVERAGE = {"ema": {"average_decay": 0.9}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"frozen_layers": 9}, "frozen_layers: 9; allowed: 0 to 2"),
        ({**SEVERAL, "async_checkpoints": True}, "checkpoints: works only on one mach"),
        (
            {**SEVERAL, "optimization": AVERAGE},
            "ema: does not work with .*parameter_server",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(encoder, settings, message):
    with pytest.raises(ValueError, match=message):
        experiment.check_settings(TrainerConfig(**settings), str(encoder))


@pytest.mark.parametrize("strategy", ["multi_worker_mirrored", "parameter_server"])
def test_asynchronous_checkpoints_on_several_machines_are_refused(encoder, strategy):
    config = TrainerConfig(strategy=strategy, async_checkpoints=True)
    with pytest.raises(ValueError, match="async_checkpoints: works only on one"):
        experiment.check_settings(config, str(encoder))


@pytest.mark.nightly
def test_keras_fit_reaches_the_same_losses_from_the_same_seed(build):
    trainer = build(task_class=SmallTask, learning_rate=1e-3, epochs=1)
    steps = trainer.config.trainer.train_steps
    ours = [float(trainer.train(tf.constant(1))["training_loss"]) for _ in range(steps)]
    ours_after = trainer.evaluate(tf.constant(-1))["validation_loss"]

    theirs = build(task_class=SmallTask, learning_rate=1e-3, epochs=1)
    model, task = theirs.model, theirs.task
    batches = task.build_inputs(theirs.config.task.train_data).take(steps)
    data = batches.map(lambda x, y: (x, y[inputs.LABELS], y[inputs.WEIGHTS]))
    model.compile(
        optimizer=theirs.optimizer,
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    losses = []
    record = tf_keras.callbacks.LambdaCallback(
        on_batch_begin=lambda batch, logs: model.reset_metrics(),
        on_batch_end=lambda batch, logs: losses.append(logs["loss"]),
    )
    model.fit(data, epochs=1, verbose=0, callbacks=[record])
    np.testing.assert_allclose(ours, losses, rtol=1e-4)
    rows = trainer_lib.predict(task, model, theirs.config.task.validation_data)
    theirs_after = task.reduce_aggregated_logs(rows)["validation_loss"]
    assert ours_after == pytest.approx(theirs_after, rel=1e-4)


@pytest.mark.parametrize(
    ("dtype", "task_class"),
    [
        ("float16", SmallTask),
        nightly("float16", FineTuningTask),
        nightly("bfloat16", FineTuningTask),
    ],
)
def test_mixed_precision_trains_with_float32_weights(build, dtype, task_class):
    with computation.compute_in(dtype):
        settings = {"mixed_precision": dtype, "learning_rate": 1e-3}
        trainer = build(task_class=task_class, **settings)
        before = float(trainer.evaluate(tf.constant(-1))["validation_loss"])
        trainer.train(tf.constant(12))
        after = float(trainer.evaluate(tf.constant(-1))["validation_loss"])
    is_scaled = isinstance(
        trainer.optimizer, tf_keras.mixed_precision.LossScaleOptimizer
    )
    assert is_scaled == (dtype == "float16")
    assert {variable.dtype for variable in trainer.model.variables} == {tf.float32}
    assert trainer.model.layers[-1].compute_dtype == dtype
    assert after < before


@pytest.mark.nightly
def test_public_methods_of_the_trainer_work_one_by_one(build):
    trainer = build(task_class=SmallTask, learning_rate=1e-3)
    trainer.train_loop_begin()
    iterator = iter(trainer.train_dataset)
    features, targets = trainer.next_train_inputs(iterator)
    assert features["input_word_ids"].shape[0] == targets["labels"].shape[0] == 8
    trainer.train_step(iterator)
    assert trainer.global_step.numpy() == 1
    loop = trainer.create_train_loop_fn()
    loop(iterator, tf.constant(2))
    assert trainer.global_step.numpy() == 3
    logs = trainer.train_loop_end()
    assert {"training_loss", "accuracy", "learning_rate", "gradient_norm"} <= set(logs)
    assert float(trainer.train_loss.result()) == 0  # counted anew in the next loop

    iterator = iter(trainer.eval_dataset)
    state = trainer.eval_begin()
    (features, targets), extra = trainer.next_eval_inputs(iterator)
    assert extra == {}
    state = trainer.eval_reduce(state, trainer.eval_step(iterator))
    assert len(state) == 1
    loop = trainer.create_eval_loop_fn(has_state=False)
    state = loop(iterator, tf.constant(2), state=state, reduce_fn=trainer.eval_reduce)
    assert sum(len(rows["ids"]) for rows in state) == 3 * 8
    assert {"validation_loss", "accuracy"} <= set(trainer.eval_end(state))


def test_asynchronous_methods_work_in_synchronous_training(untrained):
    trainer = untrained
    trainer.init_async()
    trainer.join()  # nothing to wait for
    with pytest.raises(ValueError, match="Coordinator uninitialized"):
        trainer.coordinator_for_async()
    dataset = trainer.distribute_dataset(
        trainer.task.build_inputs, trainer.config.task.validation_data
    )
    assert sum(len(targets["ids"]) for _, targets in dataset) == 44
