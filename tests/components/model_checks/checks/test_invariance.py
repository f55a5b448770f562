"""Models whose predictions change with texts although they should not."""

import numpy as np
import pytest

from components.model_checks.check import NotApplicable
from components.model_checks.checks.invariance import Invariance
from contracts.errors import SettingError
from contracts.task.definition import TaskConfig
from tests.components.model_checks.toys import Toy, by_word

UPPER, THANKS = {"upper_case": True}, {"append": " Thanks."}


def by_case(texts):
    """A model that predicts the second class of texts with a lower-case `good`."""
    second = np.array([0.9 if "good" in row[0] else 0.2 for row in texts])
    return np.stack([1 - second, second], axis=1)


def run(model, *perturbations, count=40, **settings):
    rows = [(f"{n} {'good' if n % 2 else 'poor'} film", n % 2) for n in range(count)]
    toy = Toy(rows={"eval": rows}, models={"candidate": model})
    return toy.run(Invariance(), perturbations=[*perturbations], **settings)


def test_model_that_changes_with_the_case_is_refused():
    result = run(by_case, UPPER, THANKS)
    assert result.status == "refused"
    assert result.sentence == (
        "the prediction changes in 20 of 40 rows (50.0 %, 95 % interval 33.8 % to "
        "66.2 %) with upper_case: true, but checks.invariance.max_changed allows 5 %"
    )
    upper, thanks = result.table.rows
    assert upper[:4] == ["upper_case: true", 40, 40, 20]
    assert upper[4].value == 0.5
    assert upper[5] == pytest.approx(0.35)
    assert thanks[:4] == ['append: " Thanks."', 40, 40, 0]
    shown = [row for row in result.rows if row.facts["change"] == "upper_case: true"]
    assert len(shown) == 5
    assert all("GOOD" in row.changed["text"] for row in shown)


def test_model_that_does_not_change_passes():
    result = run(by_word("good"), UPPER, THANKS, {"typos": 1, "column": "text"})
    # A typo may hit the word that decides.
    assert result.status == "refused"
    result = run(by_word("good"), UPPER, THANKS)
    assert result.status == "passed"
    assert result.sentence.startswith("the prediction changes in 0 of 40 rows (0.0 %")
    assert result.sentence.endswith("with upper_case: true, the largest of 2 shares")


def test_few_rows_that_change_may_be_noise():
    # One of three.
    assert run(by_case, UPPER, count=3).status == "passed"


def test_limit_and_action_decide():
    assert run(by_case, UPPER, max_changed=0.4).status == "passed"
    assert run(by_case, UPPER, action="warn").status == "warning"


def test_perturbation_that_changes_no_row_is_named():
    result = run(by_word("good"), UPPER, {"replace": {"Mr.": "Mrs."}})
    assert result.status == "passed"
    unused = 'replace: {"Mr.": "Mrs."}'
    assert result.sentence.endswith(f"; no row is changed by {unused}")
    assert result.table.rows[1] == [unused, 0, 0, 0, None, None]


def test_rows_are_limited():
    result = run(by_case, UPPER, rows=10)
    assert result.table.rows[0][1:3] == [10, 10]


@pytest.mark.parametrize(
    ("perturbations", "words"),
    [
        ([], "checks.invariance has no perturbation"),
        ([{"replace": {"x": "y"}}], 'no row is changed by replace: {"x": "y"}'),
    ],
)
def test_nothing_to_predict_is_reported(perturbations, words):
    with pytest.raises(NotApplicable, match=words):
        run(by_case, *perturbations)


def test_recipe_has_a_list_or_a_section():
    short = Invariance.Settings.model_validate([UPPER, THANKS])
    section = {"perturbations": [UPPER, THANKS]}
    assert short == Invariance.Settings.model_validate(section)
    assert short.action == "refuse"
    assert Invariance.Settings.model_validate(short.model_dump()) == short


def test_pair_without_a_column_is_refused():
    settings = Invariance.Settings.model_validate([UPPER])
    words = "0.column: missing, but a row is a pair; allowed: sentence1, sentence2"
    with pytest.raises(SettingError, match=words):
        Invariance().validate(settings, TaskConfig(), [])


def test_long_perturbations_that_start_alike_are_all_tested():
    toy = Toy(rows={"eval": [("a film", 0)] * 60}, models={"candidate": by_word("bad")})
    perturbations = [{"append": " long" * 20 + end} for end in (" bad", " fine")]
    result = toy.run(Invariance(), perturbations=perturbations)
    assert result.status == "refused"
    assert [row[3] for row in result.table.rows] == [60, 0]
    assert result.table.rows[1][0].endswith(" (2)")
