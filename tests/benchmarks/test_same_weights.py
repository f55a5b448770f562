"""The peers' copies of a tiny model have the same tensors and predictions."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import same_weights
from contracts.packing import Packing
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from modules import environment
from modules.data import preprocessing
from modules.encoder.directory import describe_architecture, open_encoder
from modules.encoder.restoring import restore_encoder
from modules.training import warm_start
from modules.training.fine_tuning_task import FineTuningConfig, FineTuningTask
from tests import tiny

pytestmark = pytest.mark.nightly

TASK = TaskConfig()
LENGTH = 16
TEXTS = [("The cat sees the tree.", "A dog likes a road!"), ("the", "a cat " * 20)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tiny.write_encoder(tmp_path_factory.mktemp("same") / "encoder")
    return open_encoder(str(path))


@pytest.fixture(scope="module")
def model(encoder):
    environment.set_up()
    params = FineTuningConfig(init_checkpoint=encoder.directory)
    model = FineTuningTask(params, TASK).build_model()
    restore_encoder(model.checkpoint_items["encoder"], encoder)
    return model


def test_tutorial_pads_to_its_length_and_predicts_the_same(model, encoder, tmp_path):
    same_weights.write_tutorial(
        model, encoder, TASK, tmp_path / "tutorial", max_seq_length=LENGTH
    )
    served = tf.saved_model.load(str(tmp_path / "tutorial"))
    columns = [tf.constant(column) for column in zip(*TEXTS, strict=True)]
    found = served.signatures["serving_default"](
        **dict(zip(TASK.text_columns, columns, strict=True))
    )
    packed = preprocessing.text_to_inputs(
        columns, encoder.vocab_file, Packing(max_seq_length=LENGTH)
    )
    inputs = preprocessing.pad_inputs(
        packed["input_word_ids"], packed["input_type_ids"]
    )
    expected = model(inputs, training=False)
    np.testing.assert_allclose(found["logits"], expected, atol=1e-5)
    ids = np.argmax(expected, axis=-1)
    assert found["class_id"].numpy().tolist() == ids.tolist()


def test_model_of_another_architecture_is_refused(encoder, tmp_path):
    same = warm_start.describe(TASK, describe_architecture(encoder))
    other = {**same, "num_hidden_layers": 12}
    exported_model.write_description(str(tmp_path), other)
    with pytest.raises(ValueError, match="num_hidden_layers 12 instead of 2"):
        same_weights.restore(tmp_path, encoder, TASK)
