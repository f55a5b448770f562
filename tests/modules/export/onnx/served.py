"""A pushed model and its portable folder predict the same."""

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from modules.export.onnx import portable_folder
from modules.export.pushed_model import read_pushed
from portable.model import PortableModel
from tests import exported

PAIRS = [
    *exported.PAIRS,
    ("The cats, a  b\u00edrd!", "sees \u4e2d the [SEP] dog"),
    ("the cat " * 40, "a dog " * 8),
    ("a dog see " * 4, "old fish, " * 30),
    ("unknownword " * 3 + "cat tree " * 12, ""),
    *[("the old cat sees the new birds " * count, "a road") for count in range(1, 20)],
]


def call(model, signature, columns):
    """Returns the outputs of a signature of an `Exported` as arrays."""
    loaded = tf.saved_model.load(str(model.directory))
    names = model.task.text_columns
    feeds = dict(zip(names, map(tf.constant, columns), strict=True))
    outputs = loaded.signatures[signature](**feeds)
    return {name: values.numpy() for name, values in outputs.items()}


def check(model, directory):
    """Asserts that predictions and tokens of a new folder are those of the model."""
    directory.mkdir()
    portable_folder.write(read_pushed(str(model.directory)), directory)
    portable = PortableModel(str(directory))
    count = len(model.task.text_columns)
    columns = list(zip(*PAIRS, strict=True))[:count]
    for signature, predict in (
        ("serving_default", portable.predict),
        ("tokenize", portable.find_tokens),
    ):
        expected, actual = call(model, signature, columns), predict(columns)
        assert actual.keys() == expected.keys()
        for name, values in expected.items():
            assert actual[name].shape == values.shape, name
            assert actual[name].dtype == values.dtype, name
            if values.dtype == np.float32:
                np.testing.assert_allclose(actual[name], values, atol=1e-5)
            else:
                np.testing.assert_array_equal(actual[name], values)
    # Of one row, too.
    first = [column[:1] for column in columns]
    for name, values in portable.predict(first).items():
        assert len(values) == 1, name
    return portable
