"""What a search tries next."""

import math

import pytest

from contracts.settings.tuner import Range
from modules.training.proposals import is_below_median, propose
from modules.training.trials import Trial

SPACE = {"learning_rate": Range(1e-5, 1e-3, is_log=True), "epochs": [2, 3, 4]}


def ended(values, number=0, value=0.5, state="completed"):
    return Trial(number, values, "key", True, state, value, [(100, value)])


def search(space, trials, value):
    """Returns the values of trials whose result is a function of them."""
    done = []
    for number in range(trials):
        proposed = propose(space, done, trials=trials, seed=0)
        done.append(ended(proposed.params, number, value(proposed.params)))
    return done


def test_first_trial_takes_the_settings_that_are_in_the_space():
    fixed = {"learning_rate": 1.0, "epochs": 3, "seed": 1}
    proposed = propose(SPACE, [], trials=8, seed=0, fixed=fixed)
    assert proposed.params["epochs"] == 3
    assert 1e-5 <= proposed.params["learning_rate"] <= 1e-3


def test_proposal_depends_only_on_what_was_tried():
    done = [ended({"learning_rate": 1e-4, "epochs": 2})]
    first, again = (propose(SPACE, done, trials=8, seed=0) for _ in range(2))
    assert first.params == again.params
    assert propose(SPACE, done, trials=8, seed=1).params != first.params


def test_no_settings_are_tried_twice():
    done = search({"epochs": [2, 3, 4]}, 3, lambda values: values["epochs"])
    assert {trial.values["epochs"] for trial in done} == {2, 3, 4}
    assert propose({"epochs": [2, 3, 4]}, done, trials=20, seed=0) is None


def test_later_trials_are_near_the_best():
    def value(values):
        return -abs(values["learning_rate"] - 7e-4) / 1e-3

    done = search(SPACE, 20, value)
    random, proposed = done[:5], done[10:]

    def mean(trials):
        return sum(trial.value for trial in trials) / len(trials)

    assert mean(proposed) > mean(random)


@pytest.mark.parametrize("state", ["pruned", "failed"])
def test_trial_without_a_result_does_not_end_the_search(state):
    done = [ended({"learning_rate": 1e-4, "epochs": 2}, 0, None, state)]
    assert propose(SPACE, done, trials=8, seed=0) is not None


def test_integers_and_whole_steps_are_proposed_for_a_range_of_integers():
    space = {"batch_size": Range(8, 64, is_log=True)}
    sizes = [trial.values["batch_size"] for trial in search(space, 6, lambda _: 0.0)]
    assert all(isinstance(size, int) and 8 <= size <= 64 for size in sizes)


def test_trial_is_pruned_from_the_half_of_its_training_on():
    done = [
        Trial(0, {"epochs": 2}, "key", True, "completed", 0.9, [(10, 0.8), (20, 0.9)])
    ]

    def is_pruned(epochs, evaluations):
        fixed = {"epochs": epochs}
        trial = propose({"epochs": [2, 3, 4]}, done, trials=4, seed=0, fixed=fixed)
        return is_below_median(trial, evaluations, epochs)

    assert not is_pruned(4, {10: 0.5})
    assert is_pruned(4, {10: 0.5, 20: 0.7})
    assert not is_pruned(4, {10: 0.5, 20: 0.91})
    assert not is_pruned(3, {10: 0.5, 15: 0.6})  # no other trial was evaluated there


NAN = [(10, math.nan), (20, None)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("state", ["completed", "pruned", "failed"])
def test_median_is_that_of_the_trials_with_a_metric(state):
    values = {"learning_rate": 1e-4, "epochs": 2}
    results = [[(10, 0.2), (20, 0.4)], [(10, 0.4), (20, 0.6)], [(10, None), (20, 0.8)]]
    with_metric = [
        Trial(number, values, "key", True, "completed", result[-1][1], result)
        for number, result in enumerate(results)
    ]
    without = [
        Trial(number, values, "key", True, state, None, NAN) for number in (3, 4, 5)
    ]
    for value, is_pruned in ((0.59, True), (0.61, False)):
        for done in (with_metric, [*with_metric, *without], [*without, *with_metric]):
            trial = propose(SPACE, done, trials=8, seed=0)
            assert is_below_median(trial, {10: 0.1, 20: value}, 4) is is_pruned


@pytest.mark.filterwarnings("error")
def test_trial_whose_metric_is_nan_is_pruned_from_the_half_of_its_training_on():
    values = {"learning_rate": 1e-4, "epochs": 2}
    is_nan = Trial(0, values, "key", True, "completed", None, NAN)
    done = [is_nan, ended(values, 1)]
    # A quarter of the trials have not been completed yet.
    trial = propose(SPACE, done, trials=20, seed=0)
    assert not is_below_median(trial, {10: None}, 4)
    assert is_below_median(trial, {20: math.nan}, 4)
    had_a_metric = propose(SPACE, done, trials=20, seed=0)
    assert not is_below_median(had_a_metric, {10: 0.5, 20: None}, 4)
    # No other one is better.
    assert not is_below_median(
        propose(SPACE, [is_nan], trials=4, seed=0), {20: None}, 4
    )
