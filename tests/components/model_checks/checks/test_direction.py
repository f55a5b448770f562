"""Models whose outputs move in the wrong direction with texts."""

import re

import numpy as np
import pytest

from components.model_checks.check import NotApplicable
from components.model_checks.checks.direction import Direction
from contracts.errors import SettingError
from contracts.task.definition import TaskConfig
from tests.components.model_checks.toys import TASK, Toy, by_word

LABELS = TaskConfig(text_columns=["text"], kind="multilabel", classes=["a", "b"])
SCORES = TaskConfig(text_columns=["text"], label_range=[0.0, 5.0])
AWFUL = {"append": " It was awful."}


def by_end(after, before=0.5, task=TASK):
    """Returns a model with other outputs for texts that have the end.

    Args:
      after: The probability of the second class, or the score, of texts with the end.
      before: That of other texts.
      task: The task.
    """

    def predict(texts):
        value = np.array([after if "awful" in row[0] else before for row in texts])
        return value if task is SCORES else np.stack([1 - value, value], axis=1)

    return predict


def run(model, *perturbations, task=TASK, **settings):
    rows = [(f"film {number}", 0) for number in range(20)]
    toy = Toy(task=task, rows={"eval": rows}, models={"candidate": model})
    return toy.run(Direction(), perturbations=[*perturbations], **settings)


@pytest.mark.parametrize(
    ("after", "direction", "status"),
    [
        (0.8, "lowers", "refused"),
        (0.59, "lowers", "passed"),  # within the tolerance
        (0.5, "lowers", "passed"),
        (0.1, "lowers", "passed"),
        (0.8, "raises", "passed"),
        (0.41, "raises", "passed"),
        (0.1, "raises", "refused"),
    ],
)
def test_probability_may_not_move_in_the_wrong_direction(after, direction, status):
    result = run(by_end(after), {**AWFUL, direction: "good"})
    assert result.status == status
    (row,) = result.table.rows
    assert row[:4] == [
        f'append: " It was awful.", {direction}: good',
        *(20, 20, 20 if status == "refused" else 0),
    ]
    assert row[5] == pytest.approx(after - 0.5)


def test_result_names_the_expectation_and_shows_rows():
    result = run(by_end(0.8), {**AWFUL, "lowers": "good"})
    assert result.sentence == (
        "the probability of good rises by more than 0.1 in 20 of 20 rows (100.0 %, "
        '95 % interval 83.2 % to 100.0 %) with append: " It was awful.", lowers: good, '
        "but checks.direction.max_failed allows 5 %"
    )
    assert len(result.rows) == 5
    facts = result.rows[0].facts
    assert facts["probability of good"] == 0.5
    assert facts["probability of good with the changed text"] == 0.8
    (row, *_) = result.rows
    assert row.changed["text"] == row.texts["text"] + " It was awful."


def test_each_perturbation_has_its_own_direction():
    result = run(
        by_word("good"),
        {"append": " good", "raises": "good"},
        {"append": " good", "lowers": "bad"},
        {"append": " good", "raises": "bad"},
    )
    assert [row[3] for row in result.table.rows] == [0, 0, 20]
    assert result.sentence.startswith(
        "the probability of bad falls by more than 0.1 in"
    )


def test_label_of_several_is_compared():
    result = run(by_end(0.8, task=LABELS), {**AWFUL, "lowers": "b"}, task=LABELS)
    assert result.status == "refused"
    result = run(by_end(0.8, task=LABELS), {**AWFUL, "lowers": "a"}, task=LABELS)
    assert result.status == "passed"


@pytest.mark.parametrize(("after", "status"), [(2.6, "refused"), (2.4, "passed")])
def test_tolerance_of_a_score_is_a_share_of_its_range(after, status):
    model = by_end(after, before=2.0, task=SCORES)
    result = run(model, {**AWFUL, "lowers": "score"}, task=SCORES)
    assert result.status == status
    assert result.sentence.startswith("the score rises by more than 0.5 in")
    assert "probability of score" not in result.rows[0].facts


def test_tolerance_limit_and_action_decide():
    awful = {**AWFUL, "lowers": "good"}
    assert run(by_end(0.8), awful, tolerance=0.4).status == "passed"
    assert run(by_end(0.55), awful, tolerance=0.0).status == "refused"
    assert run(by_end(0.8), awful, max_failed=0.9).status == "passed"
    assert run(by_end(0.8), awful, action="warn").status == "warning"


def test_no_perturbation_is_not_applicable():
    with pytest.raises(NotApplicable, match=r"checks\.direction has no perturbation"):
        run(by_end(0.8))


@pytest.mark.parametrize(
    "directions", [{}, {"lowers": "good", "raises": "bad"}, {"lowers": None}]
)
def test_exactly_one_direction_is_set(directions):
    with pytest.raises(ValueError, match="both or neither of lowers and raises"):
        Direction.Settings.model_validate([{**AWFUL, **directions}])


@pytest.mark.parametrize(
    ("part", "task", "words"),
    [
        ({"lowers": "great"}, TASK, "0.lowers: 'great'; allowed: bad, good"),
        ({"raises": "score"}, TASK, "0.raises: 'score'; allowed: bad, good"),
        ({"lowers": "good"}, SCORES, "0.lowers: 'good'; allowed: score"),
        ({"lowers": "c"}, LABELS, "0.lowers: 'c'; allowed: a, b"),
        ({"lowers": "equivalent"}, TaskConfig(), "0.column: missing"),
    ],
)
def test_unknown_output_or_missing_column_is_refused(part, task, words):
    settings = Direction.Settings.model_validate([{**AWFUL, **part}])
    with pytest.raises(SettingError, match=re.escape(words)):
        Direction().validate(settings, task, [])


def test_known_output_is_allowed():
    for part, task in (({"lowers": "good"}, TASK), ({"raises": "score"}, SCORES)):
        settings = Direction.Settings.model_validate([{**AWFUL, **part}])
        Direction().validate(settings, task, [])
        assert Direction.Settings.model_validate(settings.model_dump()) == settings
