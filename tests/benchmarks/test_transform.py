import numpy as np
import pytest
import tensorflow as tf

from benchmarks import transform
from modules.config.task import TaskConfig

KNOWN = [
    {"idx": "7", "label": "1", "sentence1": "A cat.", "sentence2": "A cat sat."},
    {"idx": "9", "label": "0", "sentence1": "A dog.", "sentence2": "No."},
]


def test_further_rows_are_the_known_ones_changed_and_numbered():
    rows = list(transform.repeat_rows(KNOWN, 3))
    assert [row["idx"] for row in rows] == ["0", "1", "2"]
    assert rows[1]["sentence1"] == "A dog."
    assert rows[2]["sentence1"] == "A cat. No. 2"
    assert KNOWN[0]["idx"] == "7"


def test_records_and_table_hold_the_same_rows(tmp_path):
    rows = tmp_path / "rows"
    transform.write_rows(KNOWN, 10, rows, TaskConfig.model_validate("mrpc"))
    table = [line.split("\t") for line in (rows / "rows.tsv").read_text().splitlines()]
    texts = []
    for split, count in (("train", 9), ("eval", 1)):
        (path,) = (rows / f"Split-{split}").iterdir()
        written = list(tf.data.TFRecordDataset(str(path), "GZIP").as_numpy_iterator())
        assert len(written) == count
        for record in written:
            features = tf.train.Example.FromString(record).features.feature
            texts.append(features["sentence1"].bytes_list.value[0].decode())
    assert texts == [first for _, first, _ in table]


def test_ids_are_the_same_in_any_order_and_form(tmp_path):
    ids = [[101, 5, 102], [101, 6, 7, 102]]
    folder = tmp_path / "Split-train"
    folder.mkdir()
    with tf.io.TFRecordWriter(str(folder / "rows.gz"), "GZIP") as writer:
        for number in (1, 0):
            values = {"idx": [number], "input_word_ids": ids[number]}
            features = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=value))
                for name, value in values.items()
            }
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    np.concatenate(ids).astype(np.int32).tofile(tmp_path / "ids")
    np.asarray([3, 4], np.int32).tofile(tmp_path / "lengths")
    flat = transform.hash_flat(tmp_path)
    assert flat[0] != flat[1]
    np.testing.assert_array_equal(transform.hash_records(tmp_path, 2), flat)
    with pytest.raises(ValueError, match="has 2 rows, and not 3"):
        transform.hash_records(tmp_path, 3)


def test_further_rows_cost_what_lies_between_two_numbers_of_rows():
    def figures(seconds):
        return [{"seconds": seconds, "import": 9.0, "tracing": 3.0, "memory": 900.0}]

    peers = [transform.TRANSFORM, transform.TF_DATA]
    text = transform.to_markdown(
        {
            10_000: dict.fromkeys(peers, figures(8.0)),
            110_000: dict.fromkeys(peers, figures(23.0)),
        },
        {count: {transform.TF_DATA: 0} for count in (10_000, 110_000)},
    )
    assert "| 10,000 to 110,000 | Transform | 15.0 |" in text
    assert "| 10,000 | tf.data | 9.0 (9.0 to 9.0) | 3.0 (3.0 to 3.0) |" in text


def test_rows_are_labelled_ones_of_the_sample():
    task = TaskConfig.model_validate("mrpc")
    known = transform.read_known(None, task)
    assert len(known) > 100
    assert all(row["sentence1"] and row["sentence2"] for row in known)
