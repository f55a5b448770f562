"""Scores of any scale: learned standardized, predicted in their own units."""

import numpy as np
import pytest
import tensorflow as tf

from contracts.packing import Packing
from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from modules.data import inputs
from modules.training import experiment, run_fn
from modules.training.label_statistics import measure_scale
from tests import records, tiny
from tests.modules.training.small_model import SmallTask
from tests.nightly import nightly

pytestmark = pytest.mark.slow

ROWS = 64
RANGES = [(0.0, 5.0), (80.0, 100.0), (2000.0, 9000.0), (-3e6, -1e6)]
EXTREMES = RANGES[0], RANGES[-1]


def task_of(low, high):
    return TaskConfig(label_range=[low, high])


def shares(seed):
    """Returns token ids, and which share of the range their score is at."""
    words = np.random.default_rng(seed).integers(5, 10, size=(ROWS, 6))
    return words, (words == 5).mean(axis=1)


def write_split(path, seed, low, high):
    words, share = shares(seed)
    rows = [
        records.example(
            input_word_ids=[2, *ids.tolist(), 3],
            input_type_ids=[0] * 8,
            label=[float(low + (high - low) * part)],
            idx=[index],
        )
        for index, (ids, part) in enumerate(zip(words, share, strict=True))
    ]
    return [records.write(path, rows)]


def build_experiment(directory, low, high, **trainer):
    directory.mkdir(exist_ok=True)
    encoder = directory / "encoder"
    if not encoder.exists():
        tiny.write_encoder(encoder)
    settings = {"epochs": 8, "batch_size": 16, "learning_rate": 0.1, "dropout": 0.0}
    # One evaluation, of the last step.
    settings |= {"evaluation_interval": 32, "checkpoint_interval": 32}
    return experiment.build_experiment(
        task_of(low, high),
        TrainerConfig(**settings, **trainer),
        encoder=str(encoder),
        packing=Packing(max_seq_length=32),
        splits={
            split: write_split(directory / f"{split}.gz", seed, low, high)
            for seed, split in enumerate(("train", "eval"))
        },
        strategy=tf.distribute.get_strategy(),
    )


@pytest.fixture(scope="module")
def train_once(tmp_path_factory):
    """Trains a small model on scores of a range, once."""
    results = {}

    def train_once(low, high):
        if (low, high) not in results:
            directory = tmp_path_factory.mktemp("scores")
            params = build_experiment(directory, low, high)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(run_fn, "FineTuningTask", SmallTask)
                strategy = tf.distribute.OneDeviceStrategy("CPU:0")
                results[low, high] = run_fn.train(
                    task_of(low, high), params, strategy, str(directory / "run")
                )
        return results[low, high].metrics

    return train_once


@pytest.mark.parametrize(
    ("low", "high"), [r if r in EXTREMES else nightly(*r) for r in RANGES]
)
def test_scores_of_any_scale_reach_the_same_correlation(train_once, low, high):
    metrics, expected = train_once(low, high), train_once(*RANGES[0])
    assert expected["pearson"] > 0.95
    for name in ("pearson", "spearman", "validation_loss"):
        assert metrics[name] == pytest.approx(expected[name], abs=0.01), name
    # In their own units.
    for name, power in (("mae", 1), ("mse", 2)):
        scaled = metrics[name] / (high - low) ** power
        assert scaled == pytest.approx(expected[name] / 5.0**power, abs=0.002), name


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_scale_is_mean_and_deviation_of_the_training_split(tmp_path, low, high):
    params = build_experiment(tmp_path, low, high)
    scores = low + (high - low) * shares(seed=0)[1]
    expected = [scores.mean(), scores.std()]
    assert params.task.score_scale == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("score", [0.0, 0.1, 99.7])
def test_equal_scores_are_not_divided_by_their_deviation(tmp_path, score):
    rows = [records.example(label=[score])] * 1000
    path = records.write(tmp_path / "train.gz", rows)
    data = inputs.ExamplesConfig(input_path=[path])
    scale = measure_scale(task_of(0.0, 100.0), data, tf.distribute.get_strategy())
    assert scale == pytest.approx((score, 1.0))


def test_classes_have_no_scale(tmp_path):
    _, _, params = tiny.build_experiment(tmp_path)
    assert params.task.score_scale == [0.0, 1.0]


def test_model_to_start_from_predicts_the_same_scores_on_another_scale(tmp_path):
    definition = task_of(80.0, 100.0)
    params = build_experiment(tmp_path / "data", 80.0, 100.0)
    params.task.score_scale = [90.0, 5.0]
    module = tf.Module()
    module._model = SmallTask(params.task, definition).build_model()
    champion = str(tmp_path / "champion")
    tf.saved_model.save(module, champion)
    described = {exported_model.SCORE_SCALE: params.task.score_scale}
    exported_model.write_description(champion, described)

    params.task.base_model = champion
    params.task.score_scale = [50.0, 20.0]
    task = SmallTask(params.task, definition)
    model = task.build_model()
    task.initialize(model)
    features, _ = next(iter(inputs.build_batches(params.task.validation_data)))
    scores, expected = (
        network(features, training=False).numpy() for network in (model, module._model)
    )
    assert 70 < expected.min() < expected.max() < 110
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
