"""The curves of a training, from its summaries for TensorBoard."""

import pytest
import tensorflow as tf

from report import training_part


def write_summaries(directory, losses):
    """Writes a file of summaries, as each start of a training does."""
    writer = tf.summary.create_file_writer(str(directory / "train"))
    with writer.as_default():
        for step, loss in losses.items():
            tf.summary.scalar("training_loss", loss, step=step)
    writer.close()


def test_summaries_without_a_point_are_empty_curves(tmp_path):
    write_summaries(tmp_path, {})
    curves = training_part._read_curves(str(tmp_path))
    assert [curve.x for curve in curves.values()] == [[], []]


def test_steps_that_a_resumed_training_repeats_count_once(tmp_path):
    """It was killed after step 4, and resumed from the checkpoint of step 2."""
    write_summaries(tmp_path, {1: 0.9, 2: 0.8, 3: 0.7, 4: 0.6})
    write_summaries(tmp_path, {3: 0.5, 4: 0.4, 5: 0.3})
    curve = training_part._read_curves(str(tmp_path))["training_loss"]
    assert curve.x == [1, 2, 3, 4, 5]
    assert curve.y == pytest.approx([0.9, 0.8, 0.5, 0.4, 0.3])
