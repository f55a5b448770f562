"""Splitting the rows of a source without splits."""

import itertools
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest.examples.bad_rows import BadRows
from ingest.examples.label_parser import LabelParser
from ingest.examples.row_parser import RowParser
from ingest.examples.splitting import split_rows
from ingest.rows.row_errors import Location, RowError
from tests.refusals import refused

SMALL = "E-class-too-small"
TASK = TaskConfig(text_columns=["text"], classes=["rare", "common"])
SCORES = TaskConfig(text_columns=["text"], label_range=[0, 1])
PAIRS = TaskConfig(text_columns=["a", "b"], classes=["no", "yes"])
LABELS = TaskConfig(
    text_columns=["text"],
    kind="multilabel",
    classes=["x", "y", "z"],
    label_separator=",",
    metric="micro_f1",
)
SPLITS = ("train", "test", "eval")


def choose(rows, task=TASK, *, shares=None, **settings):
    """Returns the split of each row; None for bad rows."""
    settings = DataConfig(**settings)
    if shares is None:
        shares = {"test": settings.test_size, "eval": settings.eval_size}
    located = [(Location("rows", number), row) for number, row in enumerate(rows)]
    chosen = [None] * len(rows)
    with (
        tempfile.TemporaryDirectory() as directory,
        BadRows(settings.on_bad_rows, Path(directory)) as bad_rows,
    ):
        parser = RowParser(task, settings, LabelParser(task, settings))
        good = bad_rows.filter("train", located, parser)
        splits = split_rows(good, bad_rows, task, settings, shares)
        assert list(splits) == ["train", *shares]
        for name, rows_of_split in splits.items():
            for row in rows_of_split:
                assert chosen[row.location.row] is None
                chosen[row.location.row] = name
    assert chosen.count(None) == bad_rows.counts.total()
    return np.array(chosen, object)


def rows_of(labels, start=0):
    return [
        {"text": f"text {n}", "label": label} for n, label in enumerate(labels, start)
    ]


def share_of(chosen, split):
    return (chosen == split).mean()


def test_shares_are_close_to_the_settings():
    chosen = choose(rows_of(["rare", "common"] * 5000), test_size=0.3, eval_size=0.15)
    assert share_of(chosen, "test") == pytest.approx(0.3, abs=0.02)
    assert share_of(chosen, "eval") == pytest.approx(0.15, abs=0.015)
    assert share_of(chosen[::2], "test") == pytest.approx(0.3, abs=0.03)


def test_scores_of_any_size_are_in_each_split():
    scores = np.linspace(0, 1, 2000)
    chosen = choose(rows_of(scores), SCORES)
    for split in SPLITS:
        assert scores[chosen == split].mean() == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_new_rows_move_no_other_row_wherever_they_are(seed):
    rows = rows_of(["rare", "common", "common"] * 200)
    before = choose(rows, split_seed=seed)
    new = rows_of(["rare"] * 70 + ["common"] * 350, start=600)
    for changed, old in (
        ([*rows, *new], slice(0, 600)),
        ([*new, *rows], slice(420, None)),
        ([new[0], *rows], slice(1, None)),
    ):
        assert (choose(changed, split_seed=seed)[old] == before).all()
    kept = rows[5:400]
    assert (choose(kept, split_seed=seed) == before[5:400]).all()


def test_order_of_the_rows_does_not_matter():
    rows = rows_of(["rare"] * 3 + ["common"] * 300)
    for n, row in enumerate(rows):
        row["author"] = "" if n % 3 else f"a{n // 30}"
    order = np.random.default_rng(0).permutation(len(rows))
    shuffled = choose([rows[i] for i in order], group_column="author")
    assert (shuffled == choose(rows, group_column="author")[order]).all()


@pytest.mark.parametrize("rare", [3, 4, 5, 40])
@pytest.mark.parametrize("seed", range(5))
def test_larger_test_size_only_moves_rows_from_train_to_test(seed, rare):
    rows = rows_of(["rare"] * rare + ["common"] * 300)
    sizes = [0.01, 0.1, 0.2, 0.3, 0.5, 0.75, 0.89]
    chosen = [choose(rows, split_seed=seed, test_size=size) for size in sizes]
    for small, large in itertools.pairwise(chosen):
        assert set(small[small != large]) <= {"train"}
        assert set(large[small != large]) <= {"test"}
    small, large = chosen[2], choose(rows, split_seed=seed, eval_size=0.3)
    assert set(large[small != large]) == {"eval"}
    assert set(small[small != large]) == {"train"}


def test_seed_splits_independently():
    rows = rows_of(["rare", "common"] * 2000)
    first, second = choose(rows), choose(rows, split_seed=1)
    assert (choose(rows) == first).all()
    assert share_of(second[first == "test"], "test") == pytest.approx(0.2, abs=0.04)


def test_split_of_a_release_is_that_of_the_next_one():
    chosen = choose(rows_of(["rare", "common"] * 20))
    tests = [0, 2, 3, 13, 17, 18, 19, 23, 26, 30, 32]
    assert np.flatnonzero(chosen == "test").tolist() == tests
    assert np.flatnonzero(chosen == "eval").tolist() == [14, 34, 39]


@pytest.mark.parametrize("seed", range(8))
def test_each_split_has_each_class(seed):
    labels = np.array(["rare"] * 3 + ["common"] * 4)
    chosen = choose(rows_of(labels), split_seed=seed)
    for split in SPLITS:
        assert set(labels[chosen == split]) == {"rare", "common"}
    scores = choose(rows_of([0.1, 0.2, 0.3]), SCORES, split_seed=seed)
    assert sorted(scores) == sorted(SPLITS)


@pytest.mark.parametrize("seed", range(8))
def test_each_split_has_each_label_of_several(seed):
    labels = ["x", "x,y", "y", "x,z", "z", "y,z", "z", "", "x", "y"] + ["x,y"] * 50
    chosen = choose(rows_of(labels), LABELS, split_seed=seed)
    for split in SPLITS:
        of_split = np.array(labels)[chosen == split]
        assert set("".join(of_split)) >= {"x", "y", "z"}


def test_class_with_many_rows_gives_none_to_a_split_that_has_it():
    rows = rows_of(["rare"] * 3 + ["common"] * 500)
    common = rows_of(["common"] * 500, start=3)
    assert (choose(rows)[3:] == choose(common)).all()


def test_equal_texts_are_in_one_split():
    rows = rows_of(["rare", "common"] * 100)
    twins = [{**row, "text": f"  {row['text'].upper()} "} for row in rows]
    chosen = choose([*rows, *twins])
    assert (chosen[:200] == chosen[200:]).all()
    assert (chosen[:200] == choose(rows)).all()


@pytest.mark.parametrize("reverse", [{0: 0, 1: 1}, {0: 1, 1: 0}])
def test_pair_and_its_reverse_are_in_one_split_whatever_their_labels(reverse):
    rows = [{"a": f"{n}", "b": f"x{n}", "label": n % 2} for n in range(60)]
    swapped = [
        {"a": row["b"], "b": row["a"], "label": reverse[row["label"]]} for row in rows
    ]
    chosen = choose([*rows, *swapped], PAIRS)
    assert (chosen[:60] == chosen[60:]).all()
    assert (chosen[:60] == choose(rows, PAIRS)).all()


def grouped_rows():
    return [
        {"text": f"text {n}", "label": ["rare", "common"][n % 2], "author": n // 4}
        for n in range(400)
    ]


def test_groups_are_in_one_split_and_so_are_groups_that_share_a_text():
    rows = grouped_rows()
    rows[399] = {**rows[399], "text": rows[0]["text"]}
    chosen = choose(rows, group_column="author")
    for group in chosen.reshape(100, 4):
        assert len(set(group)) == 1
    assert chosen[0] == chosen[399]
    assert set(chosen) == set(SPLITS)


def test_new_row_of_a_group_joins_it_and_moves_only_what_it_joins():
    rows = grouped_rows()
    before = choose(rows, group_column="author")
    new = {"text": "new", "label": "rare", "author": 7}
    chosen = choose([new, *rows], group_column="author")
    assert (chosen[1:] == before).all()
    assert chosen[0] == before[28]
    joining = {"text": "text 0", "label": "rare", "author": 99}
    chosen = choose([joining, *rows], group_column="author")
    assert (chosen[5:-4] == before[4:-4]).all()
    assert len({*chosen[:5], *chosen[-4:]}) == 1
    assert chosen[0] in (before[0], before[-1])


def test_share_is_of_rows_if_groups_have_many_sizes():
    sizes = [1 + 200 // (n + 20) for n in range(2000)]
    rows = [
        {"text": f"{group} {n}", "label": ["rare", "common"][n % 2], "author": group}
        for group, size in enumerate(sizes)
        for n in range(size)
    ]
    for seed in range(5):
        chosen = choose(rows, group_column="author", split_seed=seed)
        assert 0.17 <= share_of(chosen, "test") <= 0.23


def test_rows_without_a_group_are_split_by_their_texts():
    rows = rows_of(["rare", "common"] * 150)
    expected = choose(rows)
    for number, row in enumerate(rows):
        row["author"] = "" if number % 2 else f"a{number}"
    chosen = choose(rows, group_column="author")
    assert (chosen[1::2] == expected[1::2]).all()
    rows.insert(0, {"text": "new", "label": "rare", "author": ""})
    assert (choose(rows, group_column="author")[1:] == chosen).all()


def test_bad_rows_are_in_no_split():
    rows = [*rows_of(["rare", "common"] * 50), RowError("malformed"), {"text": "x"}]
    chosen = choose(rows, on_bad_rows="skip")
    assert chosen.tolist()[100:] == [None, None]
    assert (chosen[:100] == choose(rows[:100])).all()


@pytest.mark.parametrize(
    ("rare", "settings", "got"),
    [
        (2, {}, r"three different texts of rare, .* \(train, test, eval\)"),
        (1, {"shares": {"eval": 0.1}}, r"two different texts of rare, .* eval\)"),
    ],
)
def test_class_with_fewer_texts_than_splits_is_refused(rare, settings, got):
    got = re.compile(f"^it has fewer than {got}$")
    # A task needs two classes.
    with refused(SMALL, setting="data.source", got=got, advice="add rows"):
        choose(rows_of(["common"] * 20 + ["rare"] * rare), **settings)


def test_classes_that_can_be_split_are_kept_by_the_advice():
    task = TaskConfig(text_columns=["text"], classes=["rare", "common", "usual"])
    labels = ["common"] * 20 + ["usual"] * 20 + ["rare"]
    advice = re.compile(r'`task\.classes=\["common", "usual"\]`')
    with refused(SMALL, advice=advice):
        choose(rows_of(labels), task)
