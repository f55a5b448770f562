"""How training and its input grow, measured on what a test has time for."""

import pytest
import tensorflow as tf

from benchmarks import scale
from benchmarks.peers import input_rows
from tests import tiny

ROWS = 100


@pytest.fixture
def records(tmp_path):
    """A file with more rows than the one it was made of."""
    source = tiny.write_transformed(tmp_path / "rows.gz")
    scale.repeat_records(source, tmp_path / "more.gz", ROWS)
    return tmp_path / "more.gz"


def test_records_are_repeated_up_to_the_number_asked_for(records):
    dataset = tf.data.TFRecordDataset(str(records), "GZIP")
    found = list(dataset.as_numpy_iterator())
    assert len(found) == ROWS
    assert 1 < len(set(found)) < ROWS


@pytest.mark.parametrize("buffer", [ROWS, ROWS // 2])
def test_input_is_read_for_two_epochs_in_memory_or_anew(records, buffer):
    figures = input_rows.measure(
        {"records": str(records), "batch_size": 8, "shuffle_buffer_size": buffer}
    )
    assert figures["rows_per_second"] > 0
    assert figures["above"] >= 0
    table = scale.input_table({"100 rows": [figures]})
    assert "100 rows" in table


def test_a_tokens_time_is_compared_with_minilms_and_with_the_parameters():
    def round_of(tokens_per_second):
        return {
            "rows_per_second": tokens_per_second / 50,
            "tokens_per_second": tokens_per_second,
            "share": 0.5,
        }

    table = scale.encoders_table(
        {"minilm": [round_of(2000.0)], "bert-base": [round_of(250.0)]}
    )
    line = table.splitlines()[-1].split(" | ")
    assert line[0] == "| bert-base: 12 x 768, 85.1 million"
    assert line[2].startswith("8.00")
    assert line[3] == "7.99"
