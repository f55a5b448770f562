"""Simulates how often the gate refuses a good model, and accepts a bad one.

    python -m benchmarks.gate_rates
    python -m benchmarks.gate_rates --trials 20000 --agreement 0.95

Draws which rows the champion and a candidate predict right, and applies the Evaluator's
own rules. The champion has an accuracy of 0.86, and `evaluator.max_regression` is the
standard error of that accuracy. Prints a table in Markdown; "slices" are those refused
for a slice alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import click
import numpy as np

from components.evaluator import verdict
from components.evaluator.slices import SliceKey
from contracts.settings.evaluator import EvaluatorConfig
from contracts.verdicts import MetricVerdict
from modules.evaluation import resampling
from modules.evaluation.resampling import PairedTest

ACCURACY = 0.86
SIZES = (200, 408, 1725, 20_000)  # 408 and 1,725 are MRPC's validation and test split
# The true accuracy of the candidate minus that of the champion.
CHANGES = (0.02, 0.0, -0.01, -0.02, -0.05)
SLICES = 8
PARTS = BOUND, TEST, SLICE_TESTS, GATE = "bound", "test", "slices", "all three"


def max_regression(rows: int) -> float:
    """Returns the standard error of the champion's accuracy, in hundredths."""
    return max(0.01, round(math.sqrt(ACCURACY * (1 - ACCURACY) / rows), 2))


def refusal_rates(
    rows: int, change: float, agreement: float, trials: int, significance: float
) -> dict[str, float]:
    """Returns the share of evaluations in which each part of the gate refuses.

    Args:
      rows: Rows of the evaluated split, in slices of equal size.
      change: The candidate's true accuracy minus the champion's.
      agreement: Share of the rows in which both models are right, or both are wrong.
      trials: Number of simulated evaluations.
      significance: That of `EvaluatorConfig`.
    """
    only_champion, only_candidate = (
        (1 - agreement - sign * change) / 2 for sign in (1, -1)
    )
    both = ACCURACY - only_champion
    shares = both, only_champion, only_candidate, agreement - both
    sizes = [rows // SLICES + (index < rows % SLICES) for index in range(SLICES)]
    random = np.random.default_rng(0)
    drawn = np.stack([random.multinomial(n, shares, trials) for n in sizes], axis=1)
    refused = dict.fromkeys(PARTS, 0)
    for slices in drawn.tolist():
        whole = _test(np.sum(slices, axis=0).tolist())
        tests: dict[SliceKey, PairedTest] = {
            (("slice", str(index)),): _test(cells) for index, cells in enumerate(slices)
        }
        bounded = MetricVerdict(
            metric=whole.metric,
            value=whole.b,
            champion=whole.a,
            max_regression=max_regression(rows),
        )
        unbounded = bounded.model_copy(update={"max_regression": None})
        is_beyond = bool(bounded.failures)
        is_worse = bool(verdict.find_worse({(): whole}, significance, [unbounded]))
        worse = verdict.find_worse({(): whole, **tests}, significance, [bounded])
        refused[BOUND] += is_beyond
        refused[TEST] += is_worse
        refused[SLICE_TESTS] += bool(worse) and not is_worse
        refused[GATE] += is_beyond or bool(worse)
    return {part: count / trials for part, count in refused.items()}


def _test(cells: Sequence[int]) -> PairedTest:
    """Returns the test of rows right in both models, in one alone, and in none."""
    both, only_a, only_b, _ = cells
    rows = sum(cells)
    return PairedTest(
        metric="accuracy",
        rows=rows,
        a=(both + only_a) / rows,
        b=(both + only_b) / rows,
        difference=(only_b - only_a) / rows,
        low=math.nan,
        high=math.nan,
        p_value=resampling.mcnemar(only_a, only_b),
        method="McNemar",
        only_a_right=only_a,
        only_b_right=only_b,
    )


@click.command()
@click.option("--trials", default=2000, show_default=True, type=click.IntRange(1))
@click.option(
    "--agreement",
    default=0.92,
    show_default=True,
    type=click.FloatRange(0.8, 0.95),
    help="Share of rows in which both models are right, or both are wrong.",
)
def main(trials: int, agreement: float) -> None:
    """Prints the rates at which the gate refuses a candidate."""
    significance = EvaluatorConfig().significance
    print(f"| rows | max. drop | true change | {' | '.join(PARTS)} |")
    print(f"|---|---|---|{'---|' * len(PARTS)}")
    for rows in SIZES:
        for change in CHANGES:
            rates = refusal_rates(rows, change, agreement, trials, significance)
            shown = " | ".join(f"{rates[part]:.1%}" for part in PARTS)
            print(f"| {rows} | {max_regression(rows):g} | {change:+g} | {shown} |")


if __name__ == "__main__":
    main()
