"""Simulates how often the comparison with a linear model refuses a good model.

    python -m benchmarks.linear_rates
    python -m benchmarks.linear_rates --metric pearson_spearman --trials 300

Draws the predictions of a linear model and of a model with the same quality, and
applies the rules of the check. The rows form two times four slices, with a tenth,
two, three and four tenths of the rows. The linear model has an accuracy of 0.75, and
both models agree on 80 % of the rows; scores are labels with noise of the same
variance. Prints a table in Markdown. "a slice" is the refusal for one alone. A model
that is worse in a slice loses 30 points of accuracy, or has twice the noise, in
two tenths of the rows, and wins as much in the others.
"""

from __future__ import annotations

import click
import numpy as np

from components.model_checks.checks import linear_model
from contracts.metrics import Rows
from contracts.settings.evaluator import EvaluatorConfig
from contracts.task.definition import TaskConfig
from modules.evaluation import resampling, significance

SIZES = (200, 408, 1725)  # the last two are MRPC's validation and test split
METRICS = ("accuracy", "f1", "pearson_spearman")
SHARES = (0.1, 0.2, 0.3, 0.4)
ALL_ROWS, A_SLICE = "all rows", "a slice"
_ACCURACY, _AGREEMENT, _LOST = 0.75, 0.8, 0.3


def refusal_rates(
    rows: int, metric: str, trials: int, *, is_worse: bool = False
) -> dict[str, float]:
    """Returns the share of evaluations that are refused on all rows and for a slice.

    Args:
      rows: Rows of the evaluated split.
      metric: One of `METRICS`.
      trials: Number of simulated evaluations.
      is_worse: Whether the model is worse in one slice, and better in the other rows.
    """
    scores = [-3.0, 3.0] if metric == "pearson_spearman" else None
    task = TaskConfig(metric=metric, label_range=scores)
    limit = EvaluatorConfig().significance
    min_rows = linear_model.LinearModelCheck.Settings().min_slice_rows
    random = np.random.default_rng(0)
    refused = {ALL_ROWS: 0, A_SLICE: 0}
    for _ in range(trials):
        parts = [random.choice(len(SHARES), rows, p=SHARES) for _ in range(2)]
        slices = {
            (f"feature {feature}", str(value)): np.flatnonzero(part == value)
            for feature, part in enumerate(parts)
            for value in range(len(SHARES))
        }
        lost = np.zeros(rows)
        if is_worse:
            lost = np.where(parts[0] == 1, _LOST, -_LOST * SHARES[1] / (1 - SHARES[1]))
        draw = _draw_classes if task.label_kind.names else _draw_scores
        linear, model = draw(random, lost)
        test = resampling.paired_test(task, linear, model, metric)
        if significance.find_reason(test, "", limit):
            refused[ALL_ROWS] += 1
            continue
        _, tests = linear_model.compare_slices(task, linear, model, slices, min_rows)
        refused[A_SLICE] += bool(significance.find_worse_slices(tests, "", limit))
    return {part: count / trials for part, count in refused.items()}


def _draw_classes(random: np.random.Generator, lost: np.ndarray) -> list[Rows]:
    """Returns the rows of both models; the second loses a part of its accuracy."""
    labels = random.integers(2, size=len(lost))
    is_linear = random.random(len(lost)) < _ACCURACY
    # The model is right as often as the linear model, and agrees in so many rows.
    if_right = 1 - (1 - _AGREEMENT) / 2 / _ACCURACY
    if_wrong = (1 - _AGREEMENT) / 2 / (1 - _ACCURACY)
    is_model = random.random(len(lost)) < np.where(is_linear, if_right, if_wrong) - lost
    return [
        Rows.of(labels, np.eye(2)[np.where(is_right, labels, 1 - labels)])
        for is_right in (is_linear, is_model)
    ]


def _draw_scores(random: np.random.Generator, lost: np.ndarray) -> list[Rows]:
    """Returns the rows of both models; the second has more noise where it loses."""
    labels, common, *own = random.normal(size=(4, len(lost)))
    noise = np.select([lost > 0, lost < 0], [2.0, 0.5], 1.0)  # the mean square is 1
    return [
        Rows.of(labels, labels + (common + own[0]) / 2**0.5),
        Rows.of(labels, labels + noise * (common + own[1]) / 2**0.5),
    ]


@click.command()
@click.option("--trials", default=2000, show_default=True, type=click.IntRange(1))
@click.option(
    "--metric", default="accuracy", show_default=True, type=click.Choice(METRICS)
)
def main(trials: int, metric: str) -> None:
    """Prints the rates at which the comparison with a linear model refuses."""
    print("| rows | metric | equal: all rows | equal: a slice | worse in a slice |")
    print("|---|---|---|---|---|")
    for rows in SIZES:
        equal = refusal_rates(rows, metric, trials)
        worse = refusal_rates(rows, metric, trials, is_worse=True)
        print(
            f"| {rows} | {metric} | {equal[ALL_ROWS]:.1%} | {equal[A_SLICE]:.1%} | "
            f"{sum(worse.values()):.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
