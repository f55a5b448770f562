"""The sample data, and the generator that wrote it."""

import csv
import itertools
import pathlib
import random
import re

import pytest

import sample_data
from sample_data import frames, generate

DIRECTORY = pathlib.Path(sample_data.__file__).parent
SPLITS = ("train", "eval", "test")
MAX_SHORTCUT_ACCURACY = 0.65


def read(split: str) -> list[dict[str, str]]:
    """Reads a split, or all of them if `split` is "all"."""
    if split == "all":
        return list(itertools.chain.from_iterable(map(read, SPLITS)))
    path = DIRECTORY / f"{split}.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def words(sentence: str) -> set[str]:
    """Splits a sentence at spaces."""
    return set(sentence.lower().split())


def bare_words(sentence: str) -> set[str]:
    """Splits a sentence at spaces and punctuation."""
    return set(re.findall(r"\w+", sentence.lower()))


def jaccard(one: set[str], other: set[str]) -> float:
    """Returns the size of the intersection divided by that of the union."""
    return len(one & other) / len(one | other)


def overlap_coefficient(one: set[str], other: set[str]) -> float:
    """Returns the size of the intersection divided by that of the smaller set."""
    return len(one & other) / min(len(one), len(other))


def best_threshold_accuracy(scores: list[float], labels: list[int]) -> float:
    """Returns the accuracy of the best threshold, with either side as equivalent."""
    best = 0.0
    for threshold in {*scores, float("inf")}:
        hits = sum(
            (score >= threshold) == bool(label)
            for score, label in zip(scores, labels, strict=True)
        )
        best = max(best, hits / len(labels), 1 - hits / len(labels))
    return best


def labels_of(rows: list[dict[str, str]]) -> list[int]:
    return [int(row["label"]) for row in rows]


def test_default_seed_reproduces_the_checked_in_files(tmp_path):
    generate.main(["--output", str(tmp_path)])
    for split in SPLITS:
        name = f"{split}.tsv"
        assert (tmp_path / name).read_bytes() == (DIRECTORY / name).read_bytes()


def test_another_seed_gives_other_pairs(tmp_path):
    generate.main(["--output", str(tmp_path), "--seed", "1"])
    written = (tmp_path / "test.tsv").read_bytes()
    assert written != (DIRECTORY / "test.tsv").read_bytes()


@pytest.mark.parametrize("split", [*SPLITS, "all"])
@pytest.mark.parametrize("similarity", [jaccard, overlap_coefficient])
@pytest.mark.parametrize("tokenize", [words, bare_words])
def test_word_overlap_does_not_decide(split, similarity, tokenize):
    rows = read(split)
    scores = [
        similarity(tokenize(row["sentence1"]), tokenize(row["sentence2"]))
        for row in rows
    ]
    accuracy = best_threshold_accuracy(scores, labels_of(rows))
    assert accuracy <= MAX_SHORTCUT_ACCURACY


@pytest.mark.parametrize("split", [*SPLITS, "all"])
@pytest.mark.parametrize("measure", [float, abs])
def test_length_difference_does_not_decide(split, measure):
    rows = read(split)
    scores = [
        measure(len(row["sentence1"].split()) - len(row["sentence2"].split()))
        for row in rows
    ]
    accuracy = best_threshold_accuracy(scores, labels_of(rows))
    assert accuracy <= MAX_SHORTCUT_ACCURACY


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_has_its_size_and_both_labels_in_balance(split):
    labels = labels_of(read(split))
    assert len(labels) == generate.SPLITS[split]
    assert sum(labels) == len(labels) / 2


@pytest.mark.parametrize("split", SPLITS)
def test_every_line_has_four_plain_columns(split):
    lines = (DIRECTORY / f"{split}.tsv").read_text(encoding="utf-8").split("\n")
    assert lines[0] == "idx\tlabel\tsentence1\tsentence2"
    assert lines[-1] == ""
    assert all(line.count("\t") == 3 for line in lines[:-1])
    assert len(read(split)) == len(lines) - 2


def test_some_sentences_hold_double_quotes():
    assert any('"' in row["sentence1"] for row in read("train"))


def test_indices_are_unique_across_splits():
    indices = [row["idx"] for row in read("all")]
    assert len(set(indices)) == len(indices)


def test_no_sentence_occurs_twice():
    sentences = [row[key] for row in read("all") for key in ("sentence1", "sentence2")]
    assert len(set(sentences)) == len(sentences)


def test_sentences_are_between_10_and_25_words_long():
    for row in read("all"):
        for key in ("sentence1", "sentence2"):
            assert 10 <= len(row[key].split()) <= 25, row[key]


def test_no_sentence_shows_the_notation_of_frames():
    marks = re.compile(r"[\[\]{}<>|~^/]|\s\s|\ba\(")
    for row in read("all"):
        assert not marks.search(row["sentence1"] + row["sentence2"]), row


@pytest.mark.parametrize("frame", frames.load(), ids=lambda frame: frame.name)
def test_every_wording_states_every_fact(frame):
    assert len(frame.wordings) >= 4
    for wording in frame.wordings:
        assert set(re.findall(r"\{(\w+)~?\}", wording)) == set(frame.slots), wording
        assert ("<" in wording) == (frame.turn is not None), wording


@pytest.mark.parametrize("frame", frames.load(), ids=lambda frame: frame.name)
def test_a_changed_event_differs_in_what_every_wording_states(frame):
    rng = random.Random(0)
    for _ in range(50):
        event = generate.draw_event(frame, rng)
        changed, _ = generate.change_event(event, rng)
        manner = frames.draw_manner(frame, rng)
        assert changed.frame is event.frame
        assert (changed.facts, changed.turned) != (event.facts, event.turned)
        assert frames.tell(changed, manner) != frames.tell(event, manner)
