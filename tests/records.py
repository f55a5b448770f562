"""Writes and reads TFRecords of `tf.train.Example`."""

import tensorflow as tf


def example(**columns):
    """Returns an Example; a column is a list of bytes, of int or of float."""
    features = {}
    for name, values in columns.items():
        if not values:
            feature = tf.train.Feature()
        elif isinstance(values[0], bytes):
            feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(values[0], float):
            feature = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        features[name] = feature
    return tf.train.Example(features=tf.train.Features(feature=features))


def write(path, examples):
    """Writes Examples, gzipped if the name ends in `.gz`; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = "GZIP" if path.suffix == ".gz" else None
    with tf.io.TFRecordWriter(str(path), options=options) as writer:
        for row in examples:
            writer.write(row.SerializeToString())
    return str(path)


def read(pattern):
    """Returns the rows of the files that match a pattern, lists of values by column."""
    rows = []
    for path in sorted(tf.io.gfile.glob(str(pattern))):
        compression = "GZIP" if path.endswith(".gz") else ""
        for record in tf.data.TFRecordDataset(path, compression):
            features = tf.train.Example.FromString(record.numpy()).features.feature
            rows.append(
                {
                    name: list(getattr(feature, feature.WhichOneof("kind")).value)
                    for name, feature in features.items()
                }
            )
    return rows
