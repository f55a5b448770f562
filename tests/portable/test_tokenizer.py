"""Tokens without TensorFlow, against those of the exported graph."""

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from contracts.tokenization import TokenizerSettings
from modules.data.tokenization import BertTokenizer
from portable.characters import CharacterTable, Normalizer
from portable.tokenizer import Tokenizer
from tests.modules.data import test_tokenization as graph

pytestmark = pytest.mark.slow

NOT_UTF_8 = [b"the\xffcat", b"\xe2\x82", b"\xed\xa0\x80 a", b"\xf5\x80b", b"\xc0\x80c"]


def open_both(directory, settings):
    """Returns the graph's tokenizer and ours, of one vocabulary."""
    words = graph.build_vocabulary(graph.CORPUS, settings)
    complete = TokenizerSettings.of(settings, words)
    ids = {word: index for index, word in enumerate(words)}
    graph.hugging_face(settings, ids).save(str(directory / "tokenizer.json"))
    # As the folder's file has it.
    CharacterTable.of(complete).write(str(directory))
    table = CharacterTable.read(str(directory))
    vocab_file = graph.write_files(directory, words)
    tokenizer = Tokenizer(str(directory / "tokenizer.json"), Normalizer(table))
    return BertTokenizer(vocab_file), tokenizer


@pytest.fixture(scope="module")
def uncased(tmp_path_factory):
    """The graph's tokenizer and ours, with the settings of an uncased BERT."""
    return open_both(tmp_path_factory.mktemp("uncased"), {"do_lower_case": True})


@pytest.mark.parametrize("settings", graph.SETTINGS, ids=str)
def test_every_setting_gives_the_ids_of_the_graph(tmp_path, settings):
    expected, tokenizer = open_both(tmp_path, settings)
    texts = [*(text.encode() for text in graph.CORPUS), *NOT_UTF_8]
    ids = expected.tokenize(tf.constant(texts)).to_list()
    assert tokenizer.tokenize(texts) == ids
    assert tokenizer.tokenize(graph.CORPUS) == ids[: len(graph.CORPUS)]
    assert any(ids[-len(NOT_UTF_8)])


@pytest.mark.parametrize(
    "settings",
    [
        {"do_lower_case": True},
        {"do_lower_case": False, "tokenize_chinese_chars": False},
    ],
    ids=str,
)
def test_every_character_has_the_replacement_of_the_graph(tmp_path, settings):
    expected, tokenizer = open_both(tmp_path, settings)
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    texts = [
        "a " + "a".join(map(chr, codes[start : start + 16]))
        for start in range(0, len(codes), 16)
    ]
    assert tokenizer.tokenize(texts) == expected.tokenize(tf.constant(texts)).to_list()


def test_tokens_are_where_the_graph_finds_them(uncased):
    expected, tokenizer = uncased
    ids, starts, ends = expected.tokenize_with_offsets(tf.constant(graph.CORPUS))
    tokens = tokenizer.tokenize_with_offsets(graph.CORPUS)
    assert [row.ids for row in tokens] == ids.to_list()
    assert [row.starts for row in tokens] == starts.to_list()
    assert [row.ends for row in tokens] == ends.to_list()


@pytest.mark.parametrize("most", [1, 5])
def test_tokens_of_long_texts_are_those_of_their_pieces(uncased, monkeypatch, most):
    _, tokenizer = uncased
    texts = [" ".join(graph.CORPUS), "".join(graph.CORPUS), *graph.CORPUS]
    ids = tokenizer.tokenize(texts)
    located = tokenizer.tokenize_with_offsets(texts)
    monkeypatch.setattr("portable.tokenizer._MOST_CHARACTERS", most)
    assert tokenizer.tokenize(texts) == ids
    assert tokenizer.tokenize_with_offsets(texts) == located


def test_half_of_a_character_is_dropped(uncased):
    _, tokenizer = uncased
    whole, half = tokenizer.tokenize(["the cat", "the \ud83dcat"])
    assert half == whole
    assert tokenizer.tokenize_with_offsets(["the \ud83dcat"])[0].ids == whole


@graph.PROPERTIES
@hypothesis.given(
    texts=st.lists(
        st.text(graph.CHARACTERS, max_size=40).map(str.encode) | st.binary(max_size=20),
        min_size=1,
    )
)
def test_any_bytes_have_the_tokens_of_the_graph(uncased, texts):
    expected, tokenizer = uncased
    ids = expected.tokenize(tf.constant(texts)).to_list()
    assert tokenizer.tokenize(texts) == ids
    assert [row.ids for row in tokenizer.tokenize_with_offsets(texts)] == ids
