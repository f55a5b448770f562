"""The ranking of the trials of a search."""

import math

from modules.training import trials
from modules.training.trials import Trial


def test_trials_are_ranked_by_metric_then_by_loss_and_without_a_metric_last():
    results = [(None, 0.1), (0.5, 0.7), (0.5, 0.3), (0.5, 0.3), (0.6, 9.0), (0.5, None)]
    done = [
        Trial(number, {}, "key", True, "completed", value, loss=loss)
        for number, (value, loss) in enumerate(results)
    ]
    done += [Trial(6, {}, "key", True, "pruned", None)]
    read = trials.parse(trials.describe(done))
    assert [trial.number for trial in trials.order(read)] == [4, 2, 3, 1, 5, 0]
    assert trials.find_best(read).number == 4
    assert trials.find_best(read[:1]).number == 0
    assert trials.find_best([]) is None


def test_evaluations_without_a_metric_are_left_out():
    assert trials.measured([(10, None), (20, math.nan), (30, 0.5)]) == {30: 0.5}
