"""Training from the weights of a model that was exported before."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from contracts.packing import Packing
from contracts.storage import files
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from modules.encoder.directory import describe_architecture, open_encoder
from modules.training import computation, run_fn, warm_start
from modules.training import fine_tuning_trainer as trainer_lib
from modules.training.fine_tuning_task import FineTuningConfig, FineTuningTask
from tests import exported, tiny
from tests.modules.training.small_model import SmallTask
from tests.nightly import nightly

pytestmark = pytest.mark.slow

PAIRS = TaskConfig()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An encoder that no champion of this file has."""
    return str(tiny.write_encoder(tmp_path_factory.mktemp("other") / "encoder", seed=9))


@pytest.fixture(scope="module")
def small_champion(tmp_path_factory):
    """The path of a bag of words with random weights, saved as by export; the model."""
    directory = tmp_path_factory.mktemp("small_champion")
    task, _, params = tiny.build_experiment(directory / "tiny", PAIRS)
    module = tf.Module()
    module._model = SmallTask(params.task, task).build_model()
    random = np.random.default_rng(0)
    module._model.set_weights(
        [random.normal(scale=0.3, size=w.shape) for w in module._model.get_weights()]
    )
    path = directory / "pushed" / "Format-Serving"
    tf.saved_model.save(module, str(path))
    return path, module._model


def packed(task, vocab_file):
    """Returns the model's inputs of `exported.PAIRS`, a row each."""
    texts = [pair[: len(task.text_columns)] for pair in exported.PAIRS]
    for row in texts:
        columns = [tf.constant([text]) for text in row]
        features = exported.preprocessing.text_to_inputs(
            columns, vocab_file, Packing(max_seq_length=exported.MAX_SEQ_LENGTH)
        )
        yield exported.preprocessing.pad_inputs(
            features["input_word_ids"], features["input_type_ids"]
        )


@pytest.mark.parametrize(
    ("kind", "frozen", "device"),
    [
        ("pairs", 0, "one_device"),
        nightly("scores", 1, "mirrored"),
        nightly("pairs", 1, "mirrored"),
        nightly("scores", 0, "one_device"),
    ],
)
def test_logits_before_the_first_step_are_the_champions(
    export, encoder, vocab_file, kind, frozen, device
):
    strategy = {
        "one_device": tf.distribute.OneDeviceStrategy("CPU:0"),
        "mirrored": tf.distribute.MirroredStrategy(["CPU:0"]),
    }[device]
    champion = export(kind)
    params = FineTuningConfig(
        init_checkpoint=encoder,
        base_model=str(champion.directory),
        head_bias=[5.0] * champion.task.outputs,  # of a new head
        dropout=0.5,
        frozen_layers=frozen,
    )
    task = FineTuningTask(params, champion.task)
    with strategy.scope():
        model = task.build_model()
        before = [weight.numpy() for weight in model.weights]
        task.initialize(model)
    logits = [
        model(features, training=False).numpy()[0]
        for features in packed(champion.task, vocab_file)
    ]
    np.testing.assert_allclose(logits, champion.logits, atol=1e-6, rtol=0)
    for weight, old in zip(model.weights, before, strict=True):
        assert np.any(weight.numpy() != old) or not old.any() or (old == 1).all()


def test_reduced_precision_keeps_the_weights_in_full(small_champion, tmp_path):
    path, model = small_champion
    _, _, params = tiny.build_experiment(tmp_path, PAIRS)
    params.task.base_model = str(path)
    with computation.compute_in("bfloat16"):
        task = SmallTask(params.task, PAIRS)
        reduced = task.build_model()
        task.initialize(reduced)
    for weight, expected in zip(reduced.weights, model.weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), expected.numpy())


@pytest.mark.nightly
def test_killed_training_resumes_from_its_checkpoint_and_not_from_the_champion(
    small_champion, tmp_path, monkeypatch
):
    monkeypatch.setattr(run_fn, "FineTuningTask", SmallTask)
    path, _ = small_champion
    _, _, params = tiny.build_experiment(tmp_path, PAIRS, epochs=1)
    params.task.base_model = str(path)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    evaluate_once = trainer_lib.FineTuningTrainer.evaluate

    def kill(self, num_steps):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer_lib.FineTuningTrainer, "evaluate", kill)
    with pytest.raises(KeyboardInterrupt):
        run_fn.train(PAIRS, params, strategy, str(tmp_path / "run"))
    monkeypatch.setattr(trainer_lib.FineTuningTrainer, "evaluate", evaluate_once)
    monkeypatch.setattr(warm_start, "restore", None)  # a call would fail
    assert run_fn.train(PAIRS, params, strategy, str(tmp_path / "run")).steps == 6


def test_weight_that_the_champion_lacks_is_an_error(small_champion, tmp_path):
    path, _ = small_champion
    _, _, params = tiny.build_experiment(tmp_path, PAIRS)
    task = SmallTask(params.task, PAIRS)
    model = task.build_model()
    model.extra = tf.Variable(1.0)
    with pytest.raises(AssertionError, match="1 Python objects that were not bound"):
        warm_start.restore(model, str(path), task.build_model)


def architecture(encoder):
    return describe_architecture(open_encoder(encoder))


@pytest.fixture
def described(encoder, tmp_path):
    """Directory of a model with its description."""
    exported_model.write_description(
        str(tmp_path / "7"), warm_start.describe(PAIRS, architecture(encoder))
    )
    return str(tmp_path / "7")


def test_model_of_the_same_kind_is_accepted(described, encoder):
    # The component gets it as JSON.
    expected = json.dumps(warm_start.describe(PAIRS, architecture(encoder)))
    assert warm_start.find_incompatibility(described, json.loads(expected)) == ""


@pytest.mark.parametrize(
    ("task", "change", "difference"),
    [
        (PAIRS, {"hidden_size": 32}, "hidden_size 16 instead of 32"),
        (PAIRS, {"num_hidden_layers": 3}, "num_hidden_layers 2 instead of 3"),
        (PAIRS, {"vocab_size": 40}, "vocab_size 31 instead of 40"),
        (PAIRS, {"activation": "relu"}, "activation gelu instead of relu"),
        (PAIRS, {"vocabulary": "0"}, "vocabulary .* instead of 0"),
        (TaskConfig(classes=["a", "b"]), {}, r"classes .* instead of \['a', 'b'\]"),
        (
            PAIRS.model_copy(update={"kind": "multilabel"}),
            {},
            "kind None instead of multilabel",
        ),
        (
            TaskConfig(label_range=[0, 5]),
            {},
            r"instead of None; label_range None instead of",
        ),
    ],
)
def test_champion_of_another_kind_is_refused(
    described, encoder, task, change, difference
):
    expected = {**warm_start.describe(task, architecture(encoder)), **change}
    problem = warm_start.find_incompatibility(described, expected)
    assert re.search(difference, problem)


def test_champion_without_a_description_is_refused(tmp_path, encoder):
    expected = warm_start.describe(PAIRS, {})
    problem = warm_start.find_incompatibility(str(tmp_path), expected)
    assert re.search(r"has no .*architecture\.json", problem)


def test_initial_weights_are_named_by_the_directory_of_the_champion(small_champion):
    path, _ = small_champion
    assert warm_start.origin("") == "the pre-trained encoder"
    record = path.parent / warm_start.CHAMPION_FILE
    files.write_json(str(record), {"directory": "/serving/7"})
    assert warm_start.origin(str(path)) == "the champion /serving/7"
    record.unlink()
    assert warm_start.origin(str(path)) == f"the champion {path}"


def test_base_model_that_does_not_exist_is_the_encoder(tmp_path, small_champion):
    path, _ = small_champion
    assert warm_start.find_base_model(None) == ""
    assert warm_start.find_base_model(str(tmp_path / "nothing")) == ""
    assert warm_start.find_base_model(str(path)) == str(path)
