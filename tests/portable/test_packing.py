"""Packed tokens without TensorFlow, against those of the exported graph."""

import itertools

import pytest
import tensorflow as tf

from contracts.packing import LongTextConfig, Packing
from modules.data import preprocessing
from portable import packing

START, END = 101, 102
LENGTHS = [0, 1, 2, 5, 6, 7, 8, 13, 14, 30]


def check_equal(segments, settings, types=2):
    """Asserts that rows of one or two segments are packed as by the graph.

    Args:
      segments: For each text column the ids of all rows.
      settings: The packing.
      types: The encoder's number of token types.
    """
    special = {"special_token_ids": (START, END), "type_vocab_size": types}
    expected = preprocessing.pack_segments(
        [tf.ragged.constant(ids, dtype=tf.int64) for ids in segments],
        settings,
        **special,
    )
    rows = [
        packing.pack(row, settings, **special) for row in zip(*segments, strict=True)
    ]
    ids, type_ids = (
        [list(itertools.chain(*(getattr(w, name) for w in row))) for row in rows]
        for name in ("ids", "types")
    )
    assert ids == expected["input_word_ids"].to_list()
    assert type_ids == expected["input_type_ids"].to_list()


@pytest.mark.parametrize("keep", ["head", "tail", "ends"])
@pytest.mark.parametrize("length", [8, 15, 16])
def test_pairs_and_texts_are_cut_as_by_the_graph(keep, length):
    settings = Packing(max_seq_length=length, keep=keep)
    pairs = list(itertools.product(LENGTHS, LENGTHS))
    first, second = (
        [list(range(base, base + pair[side])) for pair in pairs]
        for side, base in ((0, 200), (1, 300))
    )
    check_equal([first, second], settings)
    check_equal([first], settings)


def test_both_texts_of_a_pair_have_type_0_on_an_encoder_of_one_type():
    check_equal([[[7], [8, 9]], [[10], []]], Packing(max_seq_length=8), types=1)


@pytest.mark.parametrize("keep", ["head", "ends"])
@pytest.mark.parametrize(("window", "stride"), [(8, 6), (8, 4), (9, 1)])
def test_windows_of_a_text_are_those_of_the_graph(window, stride, keep):
    settings = Packing(
        max_seq_length=24,
        keep=keep,
        long_text=LongTextConfig(window=window, stride=stride),
    )
    check_equal([[list(range(200, 200 + n)) for n in range(40)]], settings)


def test_rows_are_padded_to_the_longest():
    rows = [packing.Packed([5, 6, 7], [0, 0, 1]), packing.Packed([5], [0])]
    ids, mask, types = packing.pad(rows)
    assert ids.tolist() == [[5, 6, 7], [5, 0, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert types.tolist() == [[0, 0, 1], [0, 0, 0]]
