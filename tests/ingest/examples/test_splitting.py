"""Splitting the rows of a source without splits."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from ingest.config import DataConfig
from ingest.examples.bad_rows import BadRows
from ingest.examples.label_parser import LabelParser
from ingest.examples.row_parser import RowParser
from ingest.examples.splitting import split_rows
from ingest.rows.row_errors import Location, RowError
from modules.config.task import TaskConfig
from modules.errors import UsageError

TASK = TaskConfig(text_columns=["text"], classes=["rare", "common"])
SCORES = TaskConfig(text_columns=["text"], label_range=[0, 1])


def choose(rows, task=TASK, **settings):
    """Returns which of the rows are in the split `eval`."""
    settings = DataConfig(**settings)
    located = [(Location("rows", number), row) for number, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as directory:
        bad_rows = BadRows(settings.on_bad_rows, Path(directory))
        with bad_rows:
            parser = RowParser(task, settings, LabelParser(task, settings))
            splits = split_rows(located, parser, bad_rows, task, settings)
            is_eval = np.zeros(len(rows), bool)
            is_eval[[row.location.row for row in splits["eval"]]] = True
            in_train = [row.location.row for row in splits["train"]]
    assert not is_eval[in_train].any()
    assert len(in_train) + is_eval.sum() + bad_rows.counts.total() == len(rows)
    return is_eval


def rows_of(labels):
    return [{"text": f"text {n}", "label": label} for n, label in enumerate(labels)]


def test_each_class_has_its_share_of_both_splits():
    labels = np.array(["rare"] * 50 + ["common"] * 950)
    is_eval = choose(rows_of(labels), test_size=0.2)
    assert is_eval.sum() == 200
    assert (labels[is_eval] == "rare").sum() == 10


def test_scores_are_spread_over_both_splits():
    scores = np.linspace(0, 1, 500)
    is_eval = choose(rows_of(scores), SCORES, test_size=0.2)
    assert is_eval.sum() == 100
    for low in np.arange(0, 1, 0.1):
        inside = (low <= scores[is_eval]) & (scores[is_eval] < low + 0.1)
        assert 8 <= inside.sum() <= 12


def test_split_follows_from_the_seed():
    rows = rows_of(["rare", "common"] * 100)
    assert (choose(rows) == choose(rows)).all()
    assert (choose(rows, split_seed=1) != choose(rows)).any()


def test_split_of_a_release_is_that_of_the_next_one():
    is_eval = choose(rows_of(["rare", "common"] * 20))
    assert np.flatnonzero(is_eval).tolist() == [2, 3, 5, 11, 13, 14, 36, 38]


def test_equal_texts_are_in_one_split():
    rows = rows_of(["rare", "common"] * 100)
    twins = [{**row, "text": f"  {row['text'].upper()} "} for row in rows]
    is_eval = choose([*rows, *twins])
    assert (is_eval[:200] == is_eval[200:]).all()
    assert 0 < is_eval.sum() < 400


@pytest.mark.parametrize("reverse", [{0: 0, 1: 1}, {0: 1, 1: 0}])
def test_pair_and_its_reverse_are_in_one_split_whatever_their_labels(reverse):
    task = TaskConfig(text_columns=["a", "b"], classes=["no", "yes"])
    rows = [{"a": f"{n}", "b": f"x{n}", "label": n % 2} for n in range(60)]
    swapped = [
        {"a": row["b"], "b": row["a"], "label": reverse[row["label"]]} for row in rows
    ]
    is_eval = choose([*rows, *swapped], task)
    assert (is_eval[:60] == is_eval[60:]).all()


def test_duplicates_are_in_both_splits():
    rows = rows_of(["rare", "common"] * 250)
    is_eval = choose([*rows, *rows[:100]], test_size=0.2)
    assert 0.1 <= is_eval[500:].mean() <= 0.3
    assert is_eval.sum() == 120


def test_groups_are_in_one_split_and_so_are_groups_that_share_a_text():
    rows = [
        {"text": f"text {n}", "label": ["rare", "common"][n % 2], "author": n // 4}
        for n in range(200)
    ]
    rows[199] = {**rows[199], "text": rows[0]["text"]}
    is_eval = choose(rows, group_column="author")
    by_author = is_eval.reshape(50, 4)
    assert (by_author.all(axis=1) | ~by_author.any(axis=1)).all()
    assert is_eval[0] == is_eval[199]
    assert 0 < is_eval.sum() < 200


def test_share_is_of_rows_even_if_groups_have_many_sizes():
    sizes = [1 + 200 // (n + 1) for n in range(100)]
    rows = [
        {"text": f"{group} {n}", "label": ["rare", "common"][n % 2], "author": group}
        for group, size in enumerate(sizes)
        for n in range(size)
    ]
    for seed in range(5):
        is_eval = choose(rows, group_column="author", split_seed=seed)
        assert 0.15 <= is_eval.mean() <= 0.25


def test_rows_without_a_group_are_groups_of_their_own():
    rows = rows_of(["rare", "common"] * 150)
    for number, row in enumerate(rows):
        row["author"] = "" if number % 2 else f"a{number}"
    is_eval = choose(rows, group_column="author")
    assert is_eval.sum() == 60
    assert 0 < is_eval[1::2].sum() < 60


def test_bad_rows_are_in_neither_class():
    rows = [*rows_of(["rare", "common"] * 50), RowError("malformed"), {"text": "x"}]
    is_eval = choose(rows, on_bad_rows="skip")
    assert is_eval.sum() == 20
    assert len(is_eval) == 102
    assert not is_eval[100:].any()


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        (
            ["common"] * 20 + ["rare"],
            {},
            r'texts of rare.*task\.classes=\["common"\]',
        ),
        (
            ["common"] * 4,
            {"group_column": "author"},
            "group_column is author; the",
        ),
    ],
)
def test_rows_that_cannot_be_split_are_refused(labels, settings, message):
    with pytest.raises(UsageError, match=message):
        choose(rows_of(labels), **settings)
