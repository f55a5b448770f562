"""Labelled rows are read back, and judge predictions of each kind."""

import pytest

from contracts.records.labelled_rows import LabelledFile, LabelledRow, read_rows
from contracts.task.definition import TaskConfig

TEXTS = {"text": "a"}
SCORE = LabelledRow(texts=TEXTS, lowest=2.0, highest=3.5)
LABELS = LabelledRow(texts=TEXTS, label=[0, 1], group="plain", why="it is")


def test_rows_are_read_back(tmp_path):
    rows = [LabelledRow(texts={"b": "1", "a": "2"}, label=1), LABELS, SCORE]
    LabelledFile(rows=rows).write(str(tmp_path))
    restored = read_rows(str(tmp_path / "rows.json"))
    assert restored == rows
    assert [*restored[0].texts] == ["b", "a"]  # the order of the columns


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"rows\.json"):
        read_rows(str(tmp_path / "rows.json"))


@pytest.mark.parametrize(
    ("row", "settings", "right", "wrong", "shown"),
    [
        (
            LabelledRow(texts=TEXTS, label=0),
            {"classes": ["no", "yes"]},
            "no",
            "yes",
            "no",
        ),
        (
            LABELS,
            {"kind": "multilabel", "classes": ["joy", "love"]},
            "love",
            "joy|love",
            "love",
        ),
        (SCORE, {"label_range": [0.0, 5.0]}, "2", "1.99999988", "2 to 3.5"),
    ],
)
def test_prediction_of_each_kind_is_right_or_wrong(row, settings, right, wrong, shown):
    kind = TaskConfig(**settings).label_kind
    assert row.accepts(right, kind)
    assert not row.accepts(wrong, kind)
    assert row.describe(kind) == shown
