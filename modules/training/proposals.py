"""The settings that Optuna proposes for the next trial, and its judgment of a trial.

Not an oracle of keras-tuner: those see a trial when it has ended, and cannot prune it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from contracts.settings.tuner import Range, Values, contains
from modules.training.trials import Trial, measured

_STATES = {
    "completed": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}
_ATTEMPTS = 100


def propose(
    space: Mapping[str, Values],
    ended: list[Trial],
    *,
    trials: int,
    seed: int,
    fixed: Mapping[str, Any] | None = None,
) -> optuna.trial.Trial | None:
    """Proposes the settings of the next trial.

    They depend on the arguments alone, so a resumed search proposes what it would have
    proposed without the interruption. The first quarter of the trials are random and
    none is pruned before as many are completed; then a tree-structured Parzen
    estimator proposes, and a trial below the median of the others is pruned.

    Returns:
      Optuna's trial, which an evaluation is reported to; None if all settings that were
      proposed have been tried.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {name: _distribution(values) for name, values in space.items()}
    startup = max(1, trials // 4)
    tried = [trial.values for trial in ended]
    for attempt in range(_ATTEMPTS):
        settings: dict[str, Any] = {"seed": seed + len(ended) + attempt * (trials + 1)}
        study = optuna.create_study(
            direction="maximize",
            sampler=optuna.samplers.TPESampler(n_startup_trials=startup, **settings)
            # It may only repeat the best of a few settings.
            if attempt < _ATTEMPTS // 2
            else optuna.samplers.RandomSampler(**settings),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=startup),
        )
        study.add_trials(_freeze(trial, distributions) for trial in ended)
        if fixed is not None:
            study.enqueue_trial(
                {
                    name: fixed[name]
                    for name, values in space.items()
                    if name in fixed and contains(values, fixed[name])
                }
            )
        proposed = study.ask(distributions)
        if proposed.params not in tried:
            return proposed
        fixed = None
    return None


def is_below_median(
    trial: optuna.trial.Trial,
    evaluations: Mapping[int, float | None],
    epochs: int,
) -> bool:
    """Reports evaluations of a trial, and returns whether to prune it.

    In the first half of a trial it is not: a high rate, or a short training, is ahead
    there, and not at the end. A trial whose metric has always been NaN is pruned
    there if an earlier trial has a result.

    Args:
      trial: The result of `propose`.
      evaluations: The new ones: the metric by tenths of an epoch.
      epochs: Those of the trial.
    """
    # Optuna would take a percentile with NaN, or with a difference of infinities.
    for position, value in measured(evaluations.items()).items():
        trial.report(value, position)
    if max(evaluations, default=0) < 5 * epochs:
        return False
    *others, own = trial.study.get_trials(deepcopy=False)
    if not own.intermediate_values:
        return any(other.state == TrialState.COMPLETE for other in others)
    return bool(trial.should_prune())


def _distribution(values: Values) -> BaseDistribution:
    if not isinstance(values, Range):
        return CategoricalDistribution(values)
    low, high, is_log = values
    if values.is_integer:
        return IntDistribution(int(low), int(high), log=is_log)
    return FloatDistribution(low, high, log=is_log)


def _freeze(trial: Trial, distributions: dict[str, BaseDistribution]) -> FrozenTrial:
    state = _STATES[trial.state]
    if state == TrialState.COMPLETE and not trial.has_result:
        state = TrialState.PRUNED  # worse than the others, and not in their median
    return optuna.trial.create_trial(
        state=state,
        params=trial.values,
        distributions=distributions,
        value=trial.value if trial.has_result else None,
        intermediate_values=measured(trial.evaluations),
    )
