"""Texts that a model must predict right, on models in memory."""

import numpy as np
import pytest

from components.model_checks import NotApplicable
from components.model_checks.checks.required_rows import RequiredRows
from contracts.errors import SettingError
from contracts.records.checks import Table
from contracts.records.labelled_rows import LabelledFile, LabelledRow
from contracts.task.definition import TaskConfig
from tests.components.model_checks.toys import Toy, by_word

CHECK = RequiredRows()
ROWS = [
    LabelledRow(texts={"text": "a fine film"}, label=1, group="plain"),
    LabelledRow(texts={"text": "a dull film"}, label=0, group="plain"),
    LabelledRow(texts={"text": "not bad at all"}, label=1, group="negation", why="not"),
]


def write(folder, rows):
    LabelledFile(rows=rows).write(str(folder))
    return str(folder / LabelledFile.FILE)


def test_model_that_misses_a_required_row_is_refused_and_the_row_is_shown(tmp_path):
    toy = Toy(models={"candidate": by_word("fine"), "champion": by_word("bad")})
    result = toy.run(CHECK, file=write(tmp_path, ROWS))
    assert result.status == "refused"
    assert result.sentence == (
        "2 of 3 required rows are predicted right, and least is 1"
    )
    assert result.figures == {"rows": 3, "right": 2, "share": pytest.approx(2 / 3)}
    assert result.table == Table(
        columns=["group", "rows", "right", "share"],
        rows=[["plain", 2, 2, 1.0], ["negation", 1, 0, 0.0]],
    )
    (missed,) = result.rows
    assert missed.texts == {"text": "not bad at all"}
    assert missed.facts == {
        "label": "good",
        "prediction": "bad",
        "P(bad)": pytest.approx(0.8),
        "P(good)": pytest.approx(0.2),
        "group": "negation",
        "why": "not",
        "champion": "right",
    }


@pytest.mark.parametrize(
    ("settings", "status"),
    [({"least": 0.6}, "passed"), ({"action": "warn"}, "warning")],
)
def test_least_and_action_decide_what_a_missed_row_does(tmp_path, settings, status):
    toy = Toy(models={"candidate": by_word("fine")})
    result = toy.run(CHECK, file=write(tmp_path, ROWS), **settings)
    assert result.status == status
    assert "champion" not in result.rows[0].facts


def test_rows_without_groups_have_no_table(tmp_path):
    toy = Toy(models={"candidate": by_word("fine")})
    file = write(tmp_path, [LabelledRow(texts={"text": "fine"}, label=1)])
    result = toy.run(CHECK, file=file)
    assert (result.status, result.table, result.rows) == ("passed", None, [])
    assert result.sentence == "1 of 1 required row is predicted right"


def test_all_labels_of_a_row_must_be_predicted(tmp_path):
    task = TaskConfig(text_columns=["text"], kind="multilabel", classes=["joy", "love"])
    rows = [LabelledRow(texts={"text": text}, label=[1, 1]) for text in ("both", "one")]
    toy = Toy(
        task,
        models={
            "candidate": lambda texts: [[0.9, 0.9 * (t == ("both",))] for t in texts]
        },
        thresholds={"candidate": 0.5},
    )
    result = toy.run(CHECK, file=write(tmp_path, rows))
    (missed,) = result.rows
    assert missed.texts == {"text": "one"}
    assert missed.facts["label"] == "joy|love"
    assert missed.facts["prediction"] == "joy"


def test_score_must_be_between_the_lowest_and_the_highest(tmp_path):
    task = TaskConfig(text_columns=["first", "second"], label_range=[0.0, 5.0])
    rows = [
        LabelledRow(texts={"first": text, "second": "b"}, lowest=2, highest=3.5)
        for text in ("low", "edge", "high")
    ]
    scores = {"low": 1.9, "edge": 2.0, "high": 3.6}
    toy = Toy(
        task,
        models={"candidate": lambda texts: np.array([scores[t[0]] for t in texts])},
    )
    result = toy.run(CHECK, file=write(tmp_path, rows))
    assert [row.texts["first"] for row in result.rows] == ["low", "high"]
    assert result.rows[0].facts["label"] == "2 to 3.5"
    assert result.rows[0].facts["prediction"] == "1.9"


def test_check_without_a_file_does_not_apply():
    with pytest.raises(NotApplicable, match="names no file"):
        Toy().run(CHECK)


def test_file_for_a_tokenized_task_is_refused():
    task = TaskConfig(input="tokenized")
    CHECK.validate(CHECK.Settings(), task, [])
    with pytest.raises(SettingError, match=r"file: it has texts, but task\.input is"):
        CHECK.validate(CHECK.Settings(file="rows.csv"), task, [])


def test_rows_that_are_in_train_are_a_warning(tmp_path):
    settings = CHECK.Settings(file=write(tmp_path, ROWS))
    assert CHECK.texts_to_find(settings) == [
        ("a fine film",),
        ("a dull film",),
        ("not bad at all",),
    ]
    assert list(CHECK.judge_data(settings, None, "eval", {}, [])) == []
    found = [("a dull film",), ("not bad at all",)]
    (finding,) = CHECK.judge_data(settings, None, "eval", {}, found)
    assert not finding.is_refused
    assert finding.message == (
        "train: it has 2 rows of checks.required_rows.file, which test nothing there: "
        "number 2, 3 of the file; remove them from train, or write other texts"
    )


def fail(texts):
    raise RuntimeError("loading the champion took 9 MiB of memory")


def test_champion_that_fails_does_not_refuse_the_model(tmp_path):
    toy = Toy(models={"candidate": by_word("fine"), "champion": fail})
    result = toy.run(CHECK, file=write(tmp_path, ROWS[:2]))
    assert result.status == "passed"
    assert result.sentence.endswith(
        "right; not compared with the champion: loading the champion took 9 MiB of "
        "memory"
    )
