"""Weights of classes and rows in the training loss, and log odds of labels."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from sklearn.utils.class_weight import compute_class_weight

from contracts.task.definition import TaskConfig
from modules.data import inputs
from modules.training import label_statistics
from modules.training.fine_tuning_task import FineTuningConfig, FineTuningTask
from modules.training.fine_tuning_trainer import predict
from tests import records, tiny
from tests.modules.training.small_model import SmallTask

pytestmark = pytest.mark.slow

CLASSES = TaskConfig(classes=["other", "urgent", "spam"])
WEIGHED = CLASSES.model_copy(update={"weight_column": "weight"})
LABELS = [0, 0, 0, 0, 0, 0, 1, 2, 2]
SEVERAL = TaskConfig(kind="multilabel", classes=["rude", "threat"]).model_copy(
    update={"weight_column": "weight"}
)
SEVERAL_EQUAL = SEVERAL.model_copy(update={"weight_column": None})
ROWS_OF_SEVERAL = [[1, 0], [1, 0], [0, 0], [1, 1]] + [[0, 0]] * 96


@pytest.fixture
def measure(tmp_path):
    """Measures a split with given labels and row weights."""

    def measure(task, class_weights=None, labels=LABELS, weights=None):
        columns = {task.label_column: labels}
        if weights is not None:
            columns[task.weight_column] = weights
        columns = {k: [np.ravel(v).tolist() for v in columns[k]] for k in columns}
        examples = [
            records.example(**dict(zip(columns, row, strict=True)))
            for row in zip(*columns.values(), strict=True)
        ]
        data = inputs.ExamplesConfig(
            input_path=[records.write(tmp_path / "train.gz", examples)],
            label_column=task.label_column,
            weight_column=task.weight_column,
            label_dtype=task.label_kind.dtype,
            label_size=task.label_size,
        )
        strategy = tf.distribute.get_strategy()
        return label_statistics.measure_balance(class_weights, task, data, strategy)

    return measure


@pytest.fixture
def choose(measure):
    """Returns the weights alone."""
    return lambda *args, **options: measure(*args, **options).weights


def test_automatic_weights_are_scikit_learns_balanced_ones(choose, lines):
    expected = compute_class_weight("balanced", classes=np.arange(3), y=LABELS)
    weights = choose(CLASSES, "auto")
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    assert lines() == [
        "class weights in the training loss: other 0.5, urgent 3, spam 1.5; "
        "metrics are unweighted"
    ]
    assert label_statistics.describe_weights(CLASSES, weights) == {
        "classes": dict(zip(CLASSES.classes, weights, strict=True)),
        "weight_column": None,
        "applied_to": "training loss; metrics are unweighted",
    }


def test_named_weights_keep_their_ratio_and_have_a_mean_of_1(choose):
    weights = choose(CLASSES, {"urgent": 5.0, "spam": 0.5})
    np.testing.assert_allclose(np.array(weights) / weights[0], [1, 5, 0.5])
    assert np.mean(np.array(weights)[LABELS]) == pytest.approx(1)


def test_weights_of_classes_and_rows_together_have_a_mean_of_1(choose, lines):
    rows = [0.5, 1.0, 2.0, 0.0, 1.0, 1.0, 3.0, 0.25, 0.25]
    weights = np.array(choose(WEIGHED, {"urgent": 5.0}, weights=rows))
    assert np.mean(weights[LABELS] * rows) == pytest.approx(1)
    assert weights[1] == pytest.approx(5 * weights[0])
    assert lines()[0].endswith("column weight; metrics are unweighted")


def test_weights_of_the_rows_of_a_regression_are_scaled_too(choose):
    task = TaskConfig(label_range=[0, 5], weight_column="weight")
    labels, rows = [0.5, 3.0, 4.5], [1.0, 2.0, 6.0]
    assert choose(task, labels=labels, weights=rows) == pytest.approx([1 / 3])


def test_weight_of_a_label_is_that_of_the_rows_with_it(choose, lines):
    # The second row weighs nothing, and the first twice.
    rows = [2.0, 0.0, *[1.0] * 98]
    weights = choose(SEVERAL, {"threat": 5.0}, ROWS_OF_SEVERAL, rows)
    np.testing.assert_allclose(np.array(weights) / weights[0], [1, 1, 1, 5])
    labels = np.array(ROWS_OF_SEVERAL)
    without, having = np.split(np.array(weights), 2)
    products = np.where(labels == 1, having, without) * np.array(rows)[:, np.newaxis]
    assert products.mean() == pytest.approx(1)
    assert label_statistics.describe_weights(SEVERAL, weights)["classes"] == {
        "rude": pytest.approx(1),
        "threat": pytest.approx(5),
    }
    assert lines()[0].startswith("class weights in the training loss: rude 1, threat 5")


def test_automatic_weight_of_a_label_balances_it_within_bounds(choose):
    weights = choose(SEVERAL, "auto", ROWS_OF_SEVERAL[:24], [1.0] * 24)
    np.testing.assert_allclose(np.array(weights) / weights[0], [1, 1, 7, 20])
    with pytest.raises(ValueError, match="no row of the class threat;"):
        choose(SEVERAL, "auto", [[1, 0], [0, 0]], [1.0, 1.0])


def test_nothing_is_weighted_without_a_setting(measure, lines):
    assert measure(CLASSES) == ([], [])
    assert measure(SEVERAL_EQUAL, labels=ROWS_OF_SEVERAL).weights == []
    assert lines() == []
    assert label_statistics.describe_weights(CLASSES, []) is None


@pytest.mark.parametrize("class_weights", [None, "auto", {"threat": 5.0}])
def test_log_odds_of_a_label_are_those_of_its_rows(measure, class_weights):
    odds = measure(SEVERAL_EQUAL, class_weights, ROWS_OF_SEVERAL).log_odds
    assert odds == pytest.approx(np.log([3 / 97, 1 / 99]), abs=0.5)
    many = ROWS_OF_SEVERAL * 50
    odds = measure(SEVERAL_EQUAL, class_weights, many).log_odds
    assert odds == pytest.approx(np.log([3 / 97, 1 / 99]), abs=0.02)


def test_log_odds_count_the_weights_of_rows(measure):
    labels, rows = [[1, 0], [0, 0], [0, 1]] * 400, [0.5, 1.0, 0.0] * 400
    odds = measure(SEVERAL, labels=labels, weights=rows).log_odds
    assert odds[0] == pytest.approx(math.log(0.5), abs=0.01)
    assert odds[1] < -7
    scaled = measure(SEVERAL, labels=labels, weights=[100 * row for row in rows])
    assert scaled.log_odds == pytest.approx(odds)


def test_log_odds_of_a_label_of_no_or_all_rows_are_finite(measure):
    odds = measure(SEVERAL_EQUAL, labels=[[1, 0]] * 100).log_odds
    assert odds == pytest.approx([math.log(201), -math.log(201)])


def test_class_without_a_row_is_named(choose):
    with pytest.raises(ValueError, match="no row of the class urgent, spam; add rows"):
        choose(CLASSES, "auto", labels=[0, 0])
    assert choose(CLASSES, {"urgent": 2.0}, labels=[0, 0]) == [1, 2, 1]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1.0, math.nan], "rows where it is missing, negative or not finite"),
        ([1.0, math.inf], "rows where it is missing, negative or not finite"),
        ([5.0, -1.0], "rows where it is missing, negative or not finite"),
        ([0.0, 0.0], "0 in all rows of the training split"),
    ],
)
def test_invalid_weights_of_rows_are_refused(choose, rows, message):
    with pytest.raises(ValueError, match=f"weight_column is weight, .*{message}"):
        choose(WEIGHED, labels=[0, 1], weights=rows)


@pytest.fixture
def build_task(tmp_path):
    """Builds a task with a weighted loss, without a model."""
    encoder = str(tiny.write_encoder(tmp_path / "encoder"))

    def build_task(weights, definition=CLASSES):
        params = FineTuningConfig(init_checkpoint=encoder, loss_weights=weights)
        return FineTuningTask(params, definition)

    return build_task


TARGETS = {
    inputs.LABELS: tf.constant([0, 1, 2, 0], tf.int64),
    inputs.WEIGHTS: tf.constant([1.0, 1.0, 1.0, 0.0]),  # the last one fills the batch
}
LOGITS = tf.constant([[2.0, 0.0, 1.0], [0.0, 1.0, 3.0], [9.0, 0.0, 1.0], [1.0, 1, 1]])


def test_weighted_loss_is_divided_by_the_number_of_rows(build_task):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        TARGETS[inputs.LABELS], LOGITS
    ).numpy()
    task = build_task([0.5, 3.0, 1.5])
    expected = (0.5 * losses[0] + 3 * losses[1] + 1.5 * losses[2]) / 3
    assert float(task.build_losses(TARGETS, LOGITS)) == pytest.approx(expected)
    rows = {inputs.ROW_WEIGHTS: tf.constant([2.0, 0.0, 1.0, 0.0])}
    expected = (0.5 * losses[0] * 2 + 1.5 * losses[2]) / 3
    loss = task.build_losses(TARGETS | rows, LOGITS)
    assert float(loss) == pytest.approx(expected)


def test_weights_of_1_give_the_same_loss_to_the_last_bit(build_task):
    loss = build_task([]).build_losses(TARGETS, LOGITS).numpy()
    rows = {inputs.ROW_WEIGHTS: tf.ones([4])}
    weighted = build_task([1.0] * 3).build_losses(TARGETS | rows, LOGITS).numpy()
    assert weighted == loss


def test_loss_of_several_labels_is_the_mean_of_their_weighted_parts(build_task):
    targets = {
        inputs.LABELS: tf.constant([[1, 0], [0, 1], [1, 1]], tf.int64),
        inputs.WEIGHTS: tf.constant([1.0, 1.0, 0.0]),  # the last one fills the batch
    }
    logits = tf.constant([[2.0, 1.0], [-1.0, 3.0], [9.0, 9.0]])
    parts = -np.log(1 / (1 + np.exp([[-2.0, 1.0], [-1.0, -3.0]])))
    loss = build_task([], SEVERAL).build_losses(targets, logits)
    assert float(loss) == pytest.approx(parts.mean())
    # The weights 4 and 16 multiply the odds that the loss fits.
    loss = build_task([0.5, 0.25, 2.0, 4.0], SEVERAL).build_losses(
        targets, logits - np.log([4, 16])
    )
    weighted = parts * [[2.0, 0.25], [0.5, 4.0]]
    assert float(loss) == pytest.approx(weighted.mean())


def test_gradient_of_several_labels_is_the_sum_over_them(build_task):
    """The steps for a label do not depend on how many others there are."""
    gradients = []
    for labels in (2, 8):
        task = TaskConfig(kind="multilabel", classes=[f"l{i}" for i in range(labels)])
        targets = {
            inputs.LABELS: tf.ones([4, labels], tf.int64),
            inputs.WEIGHTS: tf.ones([4]),
        }
        logits = tf.Variable(tf.zeros([4, labels]))
        with tf.GradientTape() as tape:
            loss = build_task([], task).build_losses(targets, logits)
        assert float(loss) == pytest.approx(math.log(2))
        gradients.append(tape.gradient(loss, logits).numpy()[0, 0])
    assert gradients == pytest.approx([-0.5 / 4] * 2)


@pytest.mark.parametrize("weights", [[], [0.5, 0.25, 2.0, 4.0]])
def test_loss_of_several_labels_is_lowest_at_the_odds_of_the_rows(build_task, weights):
    labels = tf.constant([[1, 1]] + [[0, 1]] + [[0, 0]] * 8, tf.int64)
    targets = {inputs.LABELS: labels, inputs.WEIGHTS: tf.ones([10])}
    logits = tf.Variable(np.log([[1 / 9, 2 / 8]]), dtype=tf.float32)
    with tf.GradientTape() as tape:
        loss = build_task(weights, SEVERAL).build_losses(
            targets, tf.repeat(logits, 10, axis=0)
        )
    np.testing.assert_allclose(tape.gradient(loss, logits), 0, atol=1e-6)


def test_weighted_squared_error_of_scores(build_task):
    task = build_task([0.5], TaskConfig(label_range=[0, 5]))
    targets = {
        inputs.LABELS: tf.constant([1.0, 2.0]),
        inputs.WEIGHTS: tf.ones([2]),
        inputs.ROW_WEIGHTS: tf.constant([4.0, 1.0]),
    }
    loss = task.build_losses(targets, tf.constant([[2.0], [5.0]]))
    assert float(loss) == pytest.approx(0.5 * (4 * 1 + 9) / 2)


def unbalanced(rows, seed=0):
    """Returns pairs, 3 % of them in class 1: a third of the pairs with fish."""
    subjects = ["cat", "dog", "bird"]
    for index in range(rows):
        place = index % 32
        subject = "fish" if place in (5, 9, 17) else subjects[(index + seed) % 3]
        yield int(place == 5), f"The {subject} sees the tree.", "A house."


def test_rare_class_is_predicted_with_weights_and_never_without(train, monkeypatch):
    monkeypatch.setattr(tiny, "pairs", unbalanced)
    settings = {"rows": 192, "batch_size": 32, "epochs": 12, "learning_rate": 0.1}
    # The last step: the best is not by accuracy.
    settings |= {"evaluation_interval": 72, "checkpoint_interval": 72}
    recall = "recall/equivalent"
    plain = train("plain", **settings)
    weighted = train("weighted", class_weights="auto", **settings)
    assert (plain.metrics[recall], weighted.metrics[recall]) == (0, 1)
    assert weighted.metrics["precision/equivalent"] == pytest.approx(1 / 3)
    assert plain.metrics["accuracy"] == pytest.approx(31 / 32)


def test_evaluation_is_unweighted(tmp_path):
    losses = []
    for weights in (None, {"equivalent": 9.0}):
        task, _, params = tiny.build_experiment(tmp_path, class_weights=weights)
        small = SmallTask(params.task, task)
        tf_keras.utils.set_random_seed(0)
        batches = predict(small, small.build_model(), params.task.validation_data)
        losses.append(small.reduce_aggregated_logs(batches))
    assert losses[0] == losses[1]
