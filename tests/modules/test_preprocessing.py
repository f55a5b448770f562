"""Tokenization and packing, against the reference implementations."""

import pytest
import tensorflow as tf
import tensorflow_text as tf_text
from official.nlp.tools import tokenization

from modules import preprocessing
from pipeline import data
from pipeline.config import load_config
from pipeline.encoder_source import resolve_encoder
from pipeline.paths import DEFAULT_CONFIG
from tests import tiny

TEXTS = [
    "The cat sees the dog.",
    "A RED fish, likes trees!",
    "thecat ... unknownword cats finding",
    "  spaces\t and\ttabs  ",
    "Crème brûlée naïve CAT",
    "中文 the cat",
    '"quoted" the-cat\'s',
    "",
]


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    return str(tiny.write_encoder(tmp_path_factory.mktemp("t") / "e") / "vocab.txt")


def test_tokens_equal_those_of_the_original_bert_tokenizer(vocab_file):
    reference = tokenization.FullTokenizer(vocab_file, do_lower_case=True)
    (ids,) = preprocessing.tokenize([tf.constant(TEXTS)], vocab_file)
    for text, row in zip(TEXTS, ids.to_list(), strict=True):
        tokens = reference.convert_ids_to_tokens(row)
        assert tokens == reference.tokenize(text), text


def test_tokens_of_real_sentences_equal_those_of_the_original(mrpc):
    vocab_file = resolve_encoder(load_config(DEFAULT_CONFIG)).vocab_file
    reference = tokenization.FullTokenizer(vocab_file, do_lower_case=True)
    rows = [row for _, row in data.read_table(mrpc / "validation.tsv")]
    texts = [row[column] for row in rows for column in ("sentence1", "sentence2")]
    (ids,) = preprocessing.tokenize([tf.constant(texts)], vocab_file)
    differing = [
        text
        for text, row in zip(texts, ids.to_list(), strict=True)
        if reference.convert_ids_to_tokens(row) != reference.tokenize(text)
    ]
    # tensorflow-text folds case where the original lowers it: the micro sign becomes
    # the Greek letter, as in the Model Garden's own tokenizer.
    assert all(text.casefold() != text.lower() for text in differing)
    assert len(differing) <= len(texts) / 100


def test_control_characters_separate_words(vocab_file):
    """As in tensorflow-text; the original tokenizer drops them and joins the words."""
    (ids,) = preprocessing.tokenize([tf.constant(["the\x12cat"])], vocab_file)
    assert ids.to_list() == [[tiny.VOCAB.index("the"), tiny.VOCAB.index("cat")]]


def test_cased_vocabulary_keeps_capitals(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nCat\ncat\n")
    (ids,) = preprocessing.tokenize([tf.constant(["Cat cat"])], str(path))
    assert ids.to_list() == [[4, 5]]
    assert preprocessing.is_cased(str(path))


def test_bytes_that_are_not_utf_8_do_not_fail_the_batch(vocab_file):
    texts = tf.constant([b"the cat", b"\xff\xfe\x80", b"the \xc3 cat"])
    (ids,) = preprocessing.tokenize([texts], vocab_file)
    cat = tiny.VOCAB.index("cat")
    rows = ids.to_list()
    assert rows[0][-1] == cat
    assert rows[2][-1] == cat
    assert rows[1]  # what cannot be read is an unknown token, not nothing


def lengths_upto(longest):
    return [(a, b) for a in range(longest) for b in range(longest)]


@pytest.mark.parametrize("max_seq_length", [8, 9, 12])
def test_longest_first_truncation_equals_round_robin(max_seq_length):
    lengths = lengths_upto(12)
    first = tf.ragged.constant([list(range(10, 10 + a)) for a, _ in lengths], tf.int64)
    second = tf.ragged.constant([list(range(50, 50 + b)) for _, b in lengths], tf.int64)
    packed = preprocessing.pack_pairs(
        first, second, max_seq_length=max_seq_length, special_token_ids=(2, 3)
    )
    trimmed = tf_text.RoundRobinTrimmer(max_seq_length - 3).trim([first, second])
    for index, row in enumerate(packed["input_word_ids"].to_list()):
        a, b = (segment[index].numpy().tolist() for segment in trimmed)
        assert row == [2, *a, 3, *b, 3]
        types = packed["input_type_ids"][index].numpy().tolist()
        assert types == [0] * (len(a) + 2) + [1] * (len(b) + 1)


def test_batch_is_padded_to_its_longest_row_or_to_the_length_asked_for():
    rows = tf.ragged.constant([[2, 7, 3], [2, 7, 8, 9, 3]], tf.int64)
    types = tf.ragged.constant([[0, 0, 1], [0, 0, 0, 1, 1]], tf.int64)
    inputs = preprocessing.pad_inputs(rows, types)
    assert inputs["input_word_ids"].numpy().tolist()[0] == [2, 7, 3, 0, 0]
    assert inputs["input_mask"].numpy().tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    assert inputs["input_type_ids"].dtype == tf.int32
    assert preprocessing.pad_inputs(rows, types, 8)["input_mask"].shape == (2, 8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["[PAD]", "[UNK]", "cat"], r"no \[CLS\], \[SEP\]"),
        (["[UNK]", "[PAD]", "[CLS]", "[SEP]"], r"\[PAD\] at 1, not at 0"),
    ],
)
def test_vocabulary_that_is_not_berts_is_refused(tmp_path, words, message):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(words) + "\n")
    with pytest.raises(ValueError, match=message):
        preprocessing.special_token_ids(str(path))


def test_columns_of_a_curated_schema_without_shapes_are_read_as_well(vocab_file):
    sparse = tf.sparse.from_dense([["the cat"], ["the dog"]])
    labels = tf.constant([[1], [0]], tf.int64)
    inputs = {"sentence1": sparse, "sentence2": sparse, "label": labels, "idx": labels}
    config = {"task": {}, "max_seq_length": 16, "vocab_file": vocab_file}
    outputs = preprocessing.preprocessing_fn(inputs, config)
    assert outputs["input_word_ids"].dense_shape.numpy().tolist() == [2, 7]
