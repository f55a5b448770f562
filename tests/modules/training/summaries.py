"""Reads TensorBoard's event files back."""

import tensorflow as tf


def scalars(directory, tag):
    """Returns a summary's values by step; a later value replaces an earlier one."""
    values = {}
    for path in sorted(tf.io.gfile.glob(f"{directory}/events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                if value.tag == tag:
                    values[event.step] = float(tf.make_ndarray(value.tensor))
    return dict(sorted(values.items()))
