"""Peers with TensorFlow and without it get the same rows."""

import numpy as np
import pytest

from benchmarks import tokenized
from modules.data import inputs
from pipeline.config.recipe import load_config
from tests import tiny

pytestmark = pytest.mark.nightly


def test_records_and_arrays_hold_the_same_rows(tmp_path):
    recipe = tiny.write_config(tmp_path / "tiny.yaml")
    config = load_config(recipe)
    directory = tmp_path / "rows"
    directory.mkdir()
    encoder = str(tmp_path / "encoder")
    assert tokenized.write_train_split(config, encoder, directory) == 48
    records = inputs.ExamplesConfig(input_path=[str(directory / tokenized.RECORDS)])
    batch = next(iter(inputs.read_records(records).batch(100)))
    word_ids, type_ids, labels, _ = inputs.parse_examples(batch, records)
    arrays = np.load(directory / tokenized.ARRAYS)
    ends = np.cumsum(arrays["lengths"])[:-1]
    for found, name in ((word_ids, "word_ids"), (type_ids, "type_ids")):
        for row, ids in zip(found, np.split(arrays[name], ends), strict=True):
            np.testing.assert_array_equal(row, ids)
    np.testing.assert_array_equal(labels, arrays["labels"])
    assert set(arrays["labels"]) == {label for label, *_ in tiny.pairs(48)}
