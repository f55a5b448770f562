"""The time of a request, beside the champion's."""

import pytest

from components.model_checks.check import NotApplicable
from components.model_checks.checks.latency import LatencyCheck
from contracts.task.definition import TaskConfig
from tests.components.model_checks import toys

# A toy's champion takes twice as long as the model: 0.01 s for ten characters.
ROWS = {"eval": [("a" * 10, 0)] * 5}
MODELS = dict.fromkeys(["candidate", "champion"], toys.by_word("good"))


def test_faster_model_passes():
    result = toys.Toy(rows=ROWS, models=MODELS).run(LatencyCheck(), max_ratio=2)
    assert result.status == "passed"
    assert result.figures == pytest.approx(
        {"model (ms)": 10, "champion (ms)": 20, "ratio": 0.5}
    )
    assert result.sentence.endswith("(medians): 0.50 times as long")


def test_model_that_is_slower_than_the_champion_is_refused():
    result = toys.Toy(rows=ROWS, models=MODELS).run(LatencyCheck(), max_ratio=0.4)
    assert result.status == "refused"
    result.name = "latency"
    assert result.message == (
        "a request of one row takes 10.0 ms with the model and 20.0 ms with the "
        "champion, in turn on this machine (medians): 0.50 times as long, but "
        "checks.latency.max_ratio allows 0.4; if the model shall be slower, raise the "
        "setting (checks.latency) [E-serving-slow]"
    )


def test_both_models_are_timed_with_the_same_rows_in_turn():
    toy = toys.Toy(rows=ROWS, models=MODELS)
    toy.run(LatencyCheck(), max_ratio=2, rows=3)
    (sent,) = (arguments[0] for name, arguments in toy.calls if name == "time_in_turn")
    texts = [("a" * 10,)] * 3
    assert sent == {"model": ("candidate", texts), "champion": ("champion", texts)}


def test_champion_that_cannot_be_timed_is_a_refusal_with_the_setting():
    class Failing(toys.Toy):
        def _time_in_turn(self, runs):
            raise RuntimeError("signature 'serve' returns 'scores'")

    result = Failing(rows=ROWS, models=MODELS).run(LatencyCheck(), max_ratio=2)
    assert result.status == "refused"
    assert "signature 'serve' returns 'scores'" in result.sentence
    assert result.advice.endswith("set checks.latency.max_ratio=null")


TOKENS = TaskConfig(input="tokenized")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"models": {}}, "no other version is served"),
        ({"models": {}, "facts": {"not_compared": "other classes"}}, "other classes"),
        ({"models": MODELS, "task": TOKENS}, "token ids"),
    ],
    ids=["first model", "other task", "tokenized"],
)
def test_model_without_a_champion_to_be_compared_with_is_not_timed(options, reason):
    with pytest.raises(NotApplicable, match=reason):
        toys.Toy(rows=ROWS, **options).run(LatencyCheck(), max_ratio=1e-9)


def test_nothing_is_timed_without_a_limit():
    with pytest.raises(NotApplicable, match=r"max_ratio is not set"):
        toys.Toy(rows=ROWS, models=MODELS).run(LatencyCheck())
