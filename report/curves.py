"""Curves of the training by step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from contracts.metrics import VALIDATION_LOSS
from report.content import Curve, Training
from report.formatting import number
from report.svg import (
    ACCENT,
    BAND,
    DASHES,
    INK,
    LEGEND_ABOVE,
    MUTED,
    SERIES,
    axes_of,
    draw,
    label_of,
    sentence,
)

_MAX_POINTS = 300
_MAX_LABEL = 40  # the name of a run has to stay whole


def draw_training(training: Training) -> dict[str, Markup]:
    """Draws the curves of a training, by their titles."""
    metric = training.metric
    return {
        "Loss": losses(training),
        f"{metric} of the evaluation split": evaluations(training, metric),
        "Other metrics of the evaluation split": other_evaluations(training),
        "Learning rate": learning_rate(training),
    }


def losses(training: Training) -> Markup:
    """Draws the training loss of each seed, and the validation loss of the best."""

    def plot(figure: Figure) -> None:
        axes = _step_axes(figure, "loss")
        for seed in training.seeds:
            is_best = seed.seed == training.best_seed
            label = "training" if is_best else None
            _line(axes, seed.losses, is_best, label)
            validation = seed.evaluations.get(VALIDATION_LOSS)
            if is_best and validation:
                axes.plot(
                    *points_of(validation),
                    "o",
                    ls=DASHES[1],
                    ms=4,
                    color=SERIES[1],
                    label="validation",
                )
                _mark(axes, seed.best_step, validation)
        axes.set_ylim(bottom=0)
        axes.legend(ncols=3, **LEGEND_ABOVE)

    parts = []
    for seed in training.seeds:
        validation = seed.evaluations.get(VALIDATION_LOSS)
        text = f"seed {seed.seed}: training loss {_first_and_last(seed.losses)}"
        if validation:
            text += f", validation loss {_first_and_last(validation)}"
        parts.append(text)
    return draw("figure-losses", "Loss by step", sentence(parts), plot)


def evaluations(training: Training, metric: str) -> Markup:
    """Draws a metric of the evaluation split by step, a line for each seed."""

    def plot(figure: Figure) -> None:
        axes = _step_axes(figure, metric)
        for seed in training.seeds:
            curve = seed.evaluations.get(metric)
            if curve:
                is_best = seed.seed == training.best_seed
                label = f"seed {seed.seed}" + (", exported" if is_best else "")
                _line(axes, curve, is_best, label, marker="o")
                _mark(axes, seed.best_step, curve, is_best)
        axes.legend(ncols=2, **LEGEND_ABOVE)

    parts = [
        f"seed {seed.seed}: {metric} {_first_and_last(seed.evaluations[metric])}, "
        f"best at step {number(seed.best_step)}"
        for seed in training.seeds
        if metric in seed.evaluations
    ]
    title = f"{metric} of the evaluation split by step"
    return draw("figure-evaluations", title, sentence(parts), plot)


def other_evaluations(training: Training) -> Markup:
    """Draws the other metrics on all rows from the seed of the exported model."""
    (best,) = (seed for seed in training.seeds if seed.seed == training.best_seed)
    curves = {
        name: curve
        for name, curve in best.evaluations.items()
        if name not in (VALIDATION_LOSS, training.metric) and "/" not in name
    }
    if not curves:
        return Markup("")
    return overlay("figure-other-evaluations", "Other metrics by step", curves)


def overlay(
    name: str, title: str, curves: Mapping[str, Curve], y_label: str = ""
) -> Markup:
    """Draws curves in one plot.

    Args:
      name: The figure's id.
      title: Its title.
      curves: The curves by label.
      y_label: Label of the vertical axis.
    """

    def plot(figure: Figure) -> None:
        axes = _step_axes(figure, y_label)
        for index, (label, curve) in enumerate(curves.items()):
            axes.plot(
                *points_of(curve),
                color=SERIES[index % len(SERIES)],
                ls=DASHES[index % len(DASHES)],
                marker="o" if len(curve.x) < 30 else None,
                ms=3,
                label=label_of(label, _MAX_LABEL),
            )
        axes.legend(ncols=3 if max(map(len, curves)) < 12 else 1, **LEGEND_ABOVE)

    parts = [f"{label} {_first_and_last(curve)}" for label, curve in curves.items()]
    lines_above = math.ceil(len(curves) / 3) if len(curves) else 0
    return draw(name, title, sentence(parts), plot, 3.0 + 0.15 * lines_above)


def learning_rate(training: Training) -> Markup:
    """Draws the learning rate by step."""
    rates = training.learning_rates
    if not rates.y:
        return Markup("")

    def plot(figure: Figure) -> None:
        axes = _step_axes(figure, "learning rate")
        axes.plot(*points_of(rates), color=ACCENT)
        axes.fill_between(*points_of(rates), color=BAND)
        axes.set_ylim(bottom=0)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3))

    finite = [rate for rate in rates.y if math.isfinite(rate)]
    top = max(finite, default=math.nan)
    peak = rates.x[rates.y.index(top)] if finite else math.nan
    text = (
        f"starts at {number(rates.y[0])}, highest {number(top)} at step "
        f"{number(peak)}, ends at {number(rates.y[-1])} at step {number(rates.x[-1])}"
    )
    title = "Learning rate by step"
    return draw("figure-learning-rate", title, sentence([text]), plot)


def points_of(curve: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Returns at most `_MAX_POINTS` points, the first and the last among them."""
    count = min(len(curve.x), len(curve.y))
    kept = np.unique(np.linspace(0, count - 1, min(count, _MAX_POINTS)).astype(int))
    return np.asarray(curve.x, float)[kept], np.asarray(curve.y, float)[kept]


def _step_axes(figure: Figure, y_label: str) -> Axes:
    axes = axes_of(figure, "step", y_label)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    return axes


def _line(
    axes: Axes,
    curve: Curve,
    is_best: bool,
    label: str | None,
    marker: str | None = None,
) -> None:
    """Draws the curve of a seed; the best one stands out."""
    colour, width, order = (ACCENT, 2, 3) if is_best else (MUTED, 1, 2)
    axes.plot(
        *points_of(curve),
        color=colour,
        lw=width,
        zorder=order,
        marker=marker,
        ms=4,
        label=label,
        alpha=None if is_best else 0.7,
    )


def _mark(axes: Axes, step: int, curve: Curve, is_best: bool = True) -> None:
    """Puts a ring around the best step."""
    if step in curve.x:
        value = curve.y[curve.x.index(step)]
        axes.plot(
            [step],
            [value],
            "o",
            ms=11,
            mfc="none",
            zorder=4,
            mec=INK if is_best else MUTED,
            label="best step" if is_best else None,
        )


def _first_and_last(curve: Curve) -> str:
    if not curve.y:
        return "unknown"
    return (
        f"from {number(curve.y[0])} at step {number(curve.x[0])} to "
        f"{number(curve.y[-1])} at step {number(curve.x[-1])}"
    )
