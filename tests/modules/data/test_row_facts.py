"""Equal texts, lengths, and the facts of Examples."""

import numpy as np
import pytest

from contracts.packing import Packing
from contracts.task.definition import TaskConfig
from modules.data import preprocessing, row_facts
from modules.data.row_facts import hash_texts
from tests import records, tiny


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["Good value"], ["good  VALUE\n"]),
        (["Stra\u00dfe"], ["STRASSE"]),
        (["\uff27ood \ufb01t"], ["good fit"]),
        (["caf\u00e9"], ["cafe\u0301"]),
        (["a cat", "a dog"], ["A cat", "a  dog"]),
    ],
)
def test_texts_that_differ_only_in_form_are_equal(first, second):
    assert hash_texts(first) == hash_texts(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["a cat"], ["a cats"]),
        (["a cat."], ["a cat"]),
        (["ab", "c"], ["a", "bc"]),
        (["a", ""], ["a"]),
        (["a\nb"], ["a", "b"]),
        (["a", "a"], ["a"]),
        (["a cat", "a dog"], ["a dog", "a cat"]),
    ],
)
def test_other_texts_are_not_equal(first, second):
    assert hash_texts(first) != hash_texts(second)


def test_only_a_pair_and_its_reverse_are_equal_without_their_order():
    rows = [["a cat", "a dog"], ["A dog", "a  cat"], ["a cat", "dogs"], ["a", "a"]]
    pair, reverse, *others = row_facts.without_order(
        np.array(list(map(hash_texts, rows)), np.uint64)
    ).tolist()
    assert pair == reverse
    assert len({pair, *others}) == 3


def test_hash_is_the_same_in_every_process():
    assert hash_texts(["some text"]) == 0xF2D42D5E4E509E1B


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    encoder = tiny.write_encoder(tmp_path_factory.mktemp("facts") / "encoder")
    return str(encoder / "vocab.txt")


def test_lengths_are_those_of_the_packed_row_before_it_is_cut(vocab_file):
    first = ["The cat sees the tree.", "", "the " * 100]
    second = ["A dog!", "a", "cats"]
    lengths = row_facts.count_tokens([first, second], vocab_file).lengths
    packed = preprocessing.text_to_inputs(
        [first, second], vocab_file, Packing(max_seq_length=10_000)
    )
    assert lengths.tolist() == packed["input_word_ids"].row_lengths().numpy().tolist()
    assert lengths.tolist() == [6 + 3 + 3, 0 + 1 + 3, 100 + 2 + 3]
    single = row_facts.count_tokens([first], vocab_file).lengths
    assert single.tolist() == [8, 2, 102]
    assert row_facts.count_tokens([[], []], vocab_file).lengths.tolist() == []


def test_words_unknown_tokens_and_single_letters_are_counted(vocab_file):
    first = ["The cats see.", "кот \N{SNOWMAN} dog", "", "fishing"]
    second = ["a dog", "", "", "birds fishing"]
    counts = row_facts.count_tokens([first, second], vocab_file)
    assert counts.tokens.tolist() == [7, 3, 0, 6]  # the cat ##s [UNK] . a dog
    assert counts.words.tolist() == [6, 3, 0, 3]
    assert counts.unknown.tolist() == [1, 2, 0, 0]
    assert counts.letters.tolist() == [1, 0, 0, 1]  # ##s, and not ##ing


def describe(examples, task, vocab_file):
    serialized = [example.SerializeToString() for example in examples]
    hashed = [(row_facts.hash_record(record), record) for record in serialized]
    return row_facts.describe_examples(hashed, task, vocab_file), serialized


def pair(**changes):
    columns = {"sentence1": [b"the cat"], "sentence2": [b"a dog"], "label": [1]}
    columns = {**columns, "idx": [7], **changes}
    return records.example(**{k: v for k, v in columns.items() if v is not None})


def test_padding_token_may_have_any_id(tmp_path):
    words = ["[UNK]", *tiny.VOCAB[2:], "[PAD]"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    tokens = ("[CLS]", "cat", "[UNK]", "[SEP]", "[PAD]")
    ids = [*map(words.index, tokens), len(words)]
    example = pair(
        input_ids=ids, input_mask=[1] * 6, segment_ids=[0] * 6, label_ids=[1]
    )
    task = TaskConfig(input="tokenized")
    facts, _ = describe([example], task, str(tmp_path / "vocab.txt"))
    counts = facts.lengths, facts.tokens, facts.words, facts.unknown
    assert [count.tolist() for count in counts] == [[6], [2], [2], [1]]


def test_example_is_described_by_its_texts_label_length_and_id(vocab_file):
    examples = [pair(), pair(sentence1=[b"a tree"], label=[0], idx=None)]
    facts, serialized = describe(examples, TaskConfig(), vocab_file)
    hashes = [hash_texts(["the cat", "a dog"]), hash_texts(["a tree", "a dog"])]
    assert facts.texts.tolist() == hashes
    assert facts.labels.tolist() == [1, 0]
    assert facts.lengths.tolist() == [7, 7]
    assert facts.tokens.tolist() == facts.words.tolist() == [4, 4]
    assert facts.ids.tolist() == [7, -1]
    assert facts.records.tolist() == list(map(row_facts.hash_record, serialized))


def test_records_of_one_row_have_one_hash_in_any_order_of_their_features():
    parts = [records.example(label=[1]), records.example(text=[b"a"])]
    orders = [
        b"".join(part.SerializeToString() for part in order)
        for order in (parts, parts[::-1])
    ]
    assert orders[0] != orders[1]
    assert len({*map(row_facts.hash_record, orders)}) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"label": None},
        {"label": []},
        {"label": [2]},
        {"label": [-1]},
        {"label": [0.0]},
        {"label": [0, 1]},
        {"sentence1": None},
        {"sentence1": [1]},
        {"sentence2": [b"a", b"b"]},
    ],
)
def test_row_that_the_schema_refuses_is_left_out(changes, vocab_file):
    facts, _ = describe([pair(**changes), pair(idx=[8])], TaskConfig(), vocab_file)
    assert facts.ids.tolist() == [8]
    only, _ = describe([pair(**changes)], TaskConfig(), vocab_file)
    assert len(only) == 0


def test_text_that_is_not_utf_8_is_described(vocab_file):
    facts, _ = describe([pair(sentence1=[b"the \xff cat"])], TaskConfig(), vocab_file)
    assert facts.lengths.tolist() == [7]  # a bad byte is dropped


def test_scores_outside_their_range_and_nan_are_left_out(vocab_file):
    task = TaskConfig(label_range=[0.0, 5.0])
    scores = [0.0, 2.5, 5.5, float("nan"), 5.0]
    examples = [pair(label=[score]) for score in scores]
    facts, _ = describe(examples, task, vocab_file)
    assert facts.labels.tolist() == [0.0, 2.5, 5.0]


def test_tokenized_example_is_described_by_its_tokens_without_padding(vocab_file):
    def tokens(ids, mask):
        columns = {"input_ids": ids, "input_mask": mask, "segment_ids": [0] * len(ids)}
        return records.example(**columns, label_ids=[1], example_id=[3])

    examples = [
        tokens([2, 6, 3, 0], [1, 1, 1, 0]),
        tokens([2, 6, 3], [1, 1, 1]),
        tokens([2, 7, 3], [1, 1, 1]),
        tokens([2, 7, 3], [1, 1]),
        tokens([2, 1, 29, 999, -7, 3], [1] * 6),  # [UNK] ##s, and none of the encoder's
    ]
    facts, _ = describe(examples, TaskConfig(input="tokenized"), vocab_file)
    assert facts.lengths.tolist() == [3, 3, 3, 6]
    assert facts.tokens.tolist() == [1, 1, 1, 2]
    assert facts.words.tolist() == [1, 1, 1, 1]
    assert facts.unknown.tolist() == [0, 0, 0, 1]
    assert facts.letters.tolist() == [0, 0, 0, 1]
    assert facts.texts[0] == facts.texts[1] != facts.texts[2]
