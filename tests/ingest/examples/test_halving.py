"""Halving `eval` of published data without `test`."""

import csv

import pytest

from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from ingest.examples import sources, splitting, text_source
from ingest.examples.bad_rows import BadRows
from ingest.examples.halving import Halving
from ingest.rows.readers import DEFAULTS
from tests.refusals import refused

TASK = TaskConfig(text_columns=["text"], classes=["no", "yes"])
SCORES = TaskConfig(text_columns=["text"], label_range=[0, 1])
LABELS = TaskConfig(
    text_columns=["text"],
    kind="multilabel",
    classes=["x", "y"],
    label_separator=",",
    metric="micro_f1",
)
HALVING = Halving(["accuracy"], 0.1)


def write(directory, **splits):
    directory.mkdir(exist_ok=True)
    for split, rows in splits.items():
        with open(directory / f"{split}.csv", "w", newline="") as file:
            csv.writer(file).writerows([["text", "label"], *rows])
    return directory


def rows_of(count, labels=("no", "yes"), start=0):
    return [(f"text {n}", labels[n % len(labels)]) for n in range(start, start + count)]


def read(path, halving=HALVING, task=TASK):
    """Returns the texts and labels of each split."""
    source = sources.find_source(str(path), DEFAULTS)
    with BadRows("refuse", path.parent) as bad_rows:
        arguments = task, DEFAULTS, lambda line: None, bad_rows
        opened = text_source.open_splits(source, *arguments)
        opened = splitting.complete_splits(opened, bad_rows, task, DEFAULTS, halving)
        return {
            name: {row.features["text"]: row.features["label"] for row in rows}
            for name, rows in opened.items()
            if rows is not None
        }


def test_eval_is_halved_and_new_rows_move_no_other_row(tmp_path):
    train, rows = rows_of(10, start=5000), rows_of(400)
    before = read(write(tmp_path, train=train, eval=rows))
    assert list(before) == ["train", "eval", "test"]
    assert len(before["train"]) == 10
    assert 160 <= len(before["test"]) <= 240
    assert before["eval"] | before["test"] == {t: int(y == "yes") for t, y in rows}
    after = read(write(tmp_path, train=train, eval=[*rows_of(50, start=900), *rows]))
    for split in ("eval", "test"):
        assert before[split].items() <= after[split].items()


@pytest.mark.parametrize(
    ("halving", "rows"),
    [
        (None, 400),
        (HALVING, 150),  # a half has about 75 rows, and 93 are needed
        (Halving(["accuracy"], 0.02), 400),
        (Halving(["accuracy", "f1"], 0.1), 300),
    ],
)
def test_eval_stays_whole_if_a_half_is_too_small(tmp_path, halving, rows):
    splits = read(write(tmp_path, train=rows_of(4), eval=rows_of(rows)), halving)
    assert list(splits) == ["train", "eval"]
    assert len(splits["eval"]) == rows


def test_bad_rows_of_eval_are_logged_once(tmp_path, caplog):
    rows = [*rows_of(400), ("text 999", "maybe")]
    source = write(tmp_path / "data", train=rows_of(4, start=5000), eval=rows)
    with refused("E-rows-refused"):
        examples_lib.resolve_examples(
            str(source), TASK, lambda key: tmp_path / key, halving=HALVING
        )
    assert caplog.text.count("refused: ") == 1


def test_labelled_test_is_used_and_unlabelled_test_is_not(tmp_path):
    rows = {"train": rows_of(4), "eval": rows_of(400)}
    splits = read(write(tmp_path, **rows, test=rows_of(9)))
    assert (len(splits["eval"]), len(splits["test"])) == (400, 9)
    splits = read(write(tmp_path, **rows, test=rows_of(9, labels=["-1"])))
    assert len(splits["eval"]) + len(splits["test"]) == 400


def test_groups_and_equal_texts_of_eval_stay_together(tmp_path):
    rows = [*rows_of(300), *((f"TEXT {n}", "no") for n in range(300))]
    splits = read(write(tmp_path, train=rows_of(4, start=900), eval=rows))
    for n in range(300):
        assert (f"text {n}" in splits["test"]) == (f"TEXT {n}" in splits["test"])


@pytest.mark.parametrize(
    ("task", "labels", "metrics"),
    [
        (SCORES, ("0.1", "0.7", "0.9"), ["pearson_spearman"]),
        (LABELS, ("x", "x,y", "", "y"), ["micro_f1"]),
    ],
)
def test_scores_and_several_labels_are_halved(tmp_path, task, labels, metrics):
    rows = {"train": rows_of(9, labels, 900), "eval": rows_of(600, labels)}
    source = write(tmp_path, **rows)
    assert 240 <= len(read(source, Halving(metrics, 0.1), task)["test"]) <= 360
    assert "test" not in read(source, Halving(metrics, 0.001), task)


def test_eval_of_a_split_by_the_same_seed_is_halved_evenly(tmp_path):
    split = read(write(tmp_path, all=rows_of(4000)) / "all.csv", halving=None)
    rows = {
        name: [(text, ("no", "yes")[label]) for text, label in split[name].items()]
        for name in ("train", "eval")
    }
    splits = read(write(tmp_path / "written", **rows))
    assert 150 <= len(splits["test"]) <= 250


@pytest.mark.slow
def test_examples_are_those_of_the_source_where_halves_are_too_small(tmp_path):
    source = write(tmp_path / "data", train=rows_of(40), eval=rows_of(400))

    def resolve(halving):
        return examples_lib.resolve_examples(
            str(source), TASK, lambda key: tmp_path / key, halving=halving
        )

    whole, halved = resolve(None), resolve(HALVING)
    assert sorted(halved.patterns) == ["eval", "test", "train"]
    assert halved.card.is_halved
    assert not whole.card.is_halved
    assert resolve(Halving(["accuracy"], 0.001)).directory == whole.directory
