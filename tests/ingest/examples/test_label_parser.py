"""Labels as names and as indices of classes, and as scores."""

import pytest

from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest.examples.label_parser import LabelParser, NotAnIndexError
from ingest.rows.row_errors import RowError

NAMES = ["no", "yes"]


def task(classes=NAMES, labels=None):
    return TaskConfig(text_columns=["text"], classes=classes, labels=labels)


REFUSE, SKIP = DataConfig(), DataConfig(on_bad_rows="skip")


def parse(task, *values, names=None, settings=SKIP):
    """Returns the labels of values in their order; None for a bad one."""
    parser = LabelParser(task, settings)
    labels = []
    for value in values:
        try:
            labels.append(parser.parse(value, names or {}))
        except RowError:
            labels.append(None)
    return labels


def test_labels_are_indices_if_all_of_them_are():
    assert parse(task(), "1", 0, "1.0", 1.0, " 1") == [1, 0, 1, 1, 1]


def test_labels_are_names_if_one_of_them_is_not_an_index():
    assert parse(task(), "yes", "1", "no", "maybe") == [1, None, 0, None]
    with pytest.raises(NotAnIndexError, match="-1"):
        parse(task(["bad", "fine", "good"]), "0", "1", "-1")


def test_stray_label_is_the_only_bad_row_if_bad_rows_are_refused():
    assert parse(task(), "0", "5", "1", settings=REFUSE) == [0, None, 1]
    with pytest.raises(NotAnIndexError, match="5"):
        parse(task(), "0", "5", "1")


def test_name_after_indices_decides_even_if_bad_rows_are_refused():
    with pytest.raises(NotAnIndexError, match="yes"):
        parse(task(), "0", "yes", settings=REFUSE)


def test_curated_schema_decides_on_other_numbers():
    settings = DataConfig(schema_file="schema.pbtxt")
    assert parse(task(), "0", "7", "seven", settings=settings) == [0, 7, None]


def test_missing_label_does_not_decide():
    assert parse(task(), "1", "", "NA", None, "0") == [1, None, None, None, 0]


def test_setting_decides_on_every_label():
    assert parse(task(labels="name"), "1", "yes") == [None, 1]
    assert parse(task(labels="index"), "1", "yes", "2") == [1, None, None]
    stars = ["1", "2", "3"]
    assert parse(task(stars, "name"), "1", "3", "0") == [0, 2, None]
    assert parse(task(stars, "index"), "1", "0", "3") == [1, 0, None]


@pytest.mark.parametrize(
    ("classes", "spellings"),
    [
        (["1", "2"], ["1", "1.0", "01", " 1", 1, 1.0, "+1", "1.", "1.00"]),
        (["1.0", "2.0"], ["1", "1.0"]),
        (["true", "false"], [True, "true", "True", "TRUE", " True"]),
        (["-1", "1"], ["-1", "-1.0", -1, -1.0]),
        (["0.5", "1.5"], ["0.5", " 0.5", 0.5]),
        (["007", "008"], ["007", "7"]),
        (["spam", "ham"], ["spam", "spam "]),
    ],
)
def test_every_spelling_is_one_class(classes, spellings):
    labels = parse(task(classes, "name"), *spellings)
    assert labels == [0] * len(spellings)


def test_versions_and_codes_are_different_classes():
    versions = task(["1.1", "1.10", "2.0.1", "2E1", "20"], "name")
    assert parse(versions, "1.1", "1.10", "2.0.1", "2E1", "20") == [0, 1, 2, 3, 4]


def test_class_named_like_a_missing_value_is_kept():
    stance = task(["FAVOR", "AGAINST", "NONE"])
    assert parse(stance, "NONE", "FAVOR", "none") == [2, 0, None]


def test_names_of_the_source_come_first():
    names = {"0": "yes", "1": "no"}
    assert parse(task(), "0", 1, "yes", names=names) == [1, 0, 1]


@pytest.mark.parametrize(
    ("labels", "value", "message"),
    [
        ("name", "1", "'1'; allowed are no, yes .if each label is the index of a cl"),
        ("index", "yes", "allowed are numbers from 0 to 1 .*: `task.labels=name`"),
        (None, "5", "label is '5'; allowed are 0 to 1 or no, yes$"),
        (None, "n/a", "label is 'n/a', which stands for a missing value$"),
    ],
)
def test_bad_label_is_named_with_the_allowed_ones(labels, value, message):
    with pytest.raises(RowError, match=message):
        LabelParser(task(labels=labels), REFUSE).parse(value, {})


def test_scores_are_numbers_of_the_range():
    scores = TaskConfig(text_columns=["text"], label_range=[1, 5])
    assert parse(scores, "2.5", 5, "5.1", "nan", "NA") == [2.5, 5.0, None, None, None]
    with pytest.raises(RowError, match=r"allowed are numbers from 1.0 to 5.0"):
        LabelParser(scores, REFUSE).parse("good", {})
