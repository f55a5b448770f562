"""What each text column of a pair adds to the metrics, and what it costs."""

import numpy as np
import pytest

from components.model_checks.check import NotApplicable
from components.model_checks.checks.text_columns import TextColumnsCheck
from contracts.task.definition import TaskConfig
from tests.components.model_checks import toys

PAIRS = TaskConfig(classes=["dog", "cat"])
ROWS = [
    (("the cat" if index % 2 else "the dog", "the tree and the road"), index % 2)
    for index in range(60)
]


def measure(task=PAIRS, rows=ROWS, model=None, **settings):
    """Returns the toy, the result, and its row of each column."""
    model = model or toys.by_word("cat")
    toy = toys.Toy(task=task, rows={"eval": rows}, models={"candidate": model})
    result = toy.run(TextColumnsCheck(), **settings)
    columns = result.table.columns
    return (
        toy,
        result,
        [dict(zip(columns, row, strict=True)) for row in result.table.rows],
    )


def test_column_that_the_model_does_not_need_has_no_benefit():
    _, result, (none, needed, other) = measure()
    assert (none["column of other rows"], none["accuracy"]) == ("none", 1.0)
    assert needed["column of other rows"] == "sentence1"
    assert 0.2 < needed["accuracy"] < 0.8
    assert needed["benefit"].value == pytest.approx(1 - needed["accuracy"])
    assert needed["benefit"].interval[0] > 0.1
    assert (other["accuracy"], other["benefit"].value) == (1.0, 0)
    # What the column costs is beside it: the model reads four of its five words.
    assert (needed["tokens"], needed["rows cut"]) == (2, 0)
    assert (other["tokens"], other["rows cut"]) == (4, 60)
    assert other["share of tokens (%)"] == pytest.approx(100 * 4 / 6)
    # A toy's request takes a millisecond for each character.
    assert other["share of time (%)"] == pytest.approx(75)
    assert result.status == "warning"
    assert result.sentence == (
        "sentence2: no benefit was found on 60 rows, but it has 66.7 % of the tokens "
        "and 75.0 % of the time"
    )
    assert result.advice.startswith("leave the column out")
    _, result, _ = measure(action="refuse")
    assert result.status == "refused"


def test_each_column_is_sent_with_the_texts_of_other_rows():
    rows = [((f"first {index}", f"second {index}"), index % 2) for index in range(20)]
    toy, _, _ = measure(rows=rows)
    sent = [texts for texts, _ in rows]  # their predictions are recorded
    permuted = [arguments[1] for name, arguments in toy.calls if name == "outputs"]
    assert len(permuted) == 2
    for column, texts in enumerate(permuted):
        for new, old in zip(texts, sent, strict=True):
            assert new[column] != old[column]
            assert new[1 - column] == old[1 - column]
        assert sorted(row[column] for row in texts) == sorted(
            row[column] for row in sent
        )
    (timed,) = (arguments[0] for name, arguments in toy.calls if name == "time_in_turn")
    assert {key: len(texts) for key, (_, texts) in timed.items()} == {
        "all texts": 16,
        "without sentence1": 16,
        "without sentence2": 16,
    }
    assert {second for _, second in timed["without sentence2"][1]} == {""}


def test_columns_that_the_model_needs_pass():
    def is_equal(texts):
        return np.eye(2)[[int(first == second) for first, second in texts]]

    animals = ["cat", "dog", "bird"]
    pairs = [(animals[n % 3], animals[n // 3 % 3]) for n in range(90)]
    rows = [((first, second), int(first == second)) for first, second in pairs]
    _, result, _ = measure(rows=rows, model=is_equal)
    assert result.status == "passed"
    assert result.sentence.startswith("what each column adds to accuracy: sentence1 0.")
    assert result.advice == ""


def test_cheap_column_without_a_benefit_passes():
    rows = [((f"{texts[0]} {'x' * 200}", ""), label) for texts, label in ROWS]
    _, result, (_, _, other) = measure(rows=rows)
    assert other["share of tokens (%)"] == other["share of time (%)"] == 0
    assert result.status == "passed"


def test_columns_of_a_regression_are_compared_by_their_correlation():
    random = np.random.default_rng(0)
    rows = [((f"{score}", "b"), score) for score in random.uniform(0, 5, 40).tolist()]
    _, _, (none, first, second) = measure(
        task=TaskConfig(label_range=[0, 5]),
        rows=rows,
        model=lambda texts: [float(first) for first, _ in texts],
    )
    assert none["pearson_spearman"] == pytest.approx(1)
    assert first["benefit"].value == pytest.approx(1 - first["pearson_spearman"])
    assert second["benefit"].value == 0


def test_column_that_makes_a_model_worse_is_not_beneficial():
    def wrong(texts):
        return np.eye(2)[[int("dog" in first) for first, _ in texts]]

    _, result, (_, first, _) = measure(model=wrong)
    assert first["benefit"].interval[1] < 0
    assert result.sentence.startswith("sentence1: no benefit was found")


@pytest.mark.parametrize(
    "task", [TaskConfig(text_columns=["text"]), TaskConfig(input="tokenized")]
)
def test_single_text_and_token_ids_have_no_columns(task):
    with pytest.raises(NotApplicable):
        measure(task=task)
