"""The figures of a search: its metric by trial, and by each setting."""

from __future__ import annotations

import itertools

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from modules.training.trials import Trial
from report.content import Search
from report.formatting import number, score, setting_value
from report.svg import (
    ACCENT,
    INK,
    LEGEND_ABOVE,
    MUTED,
    axes_of,
    draw,
    sentence,
)

_LOG_RATIO = 8  # of the largest to the smallest value: an axis is logarithmic from here


def by_trial(search: Search) -> Markup:
    """Draws the metric of each trial, and the best one so far."""
    known = _with_value(search)

    def plot(figure: Figure) -> None:
        axes = axes_of(figure, "trial", search.metric)
        _scatter(axes, search, [float(trial.number + 1) for trial in known])
        completed = [trial for trial in known if trial.state == "completed"]
        best = itertools.accumulate((float(t.shown or 0) for t in completed), max)
        axes.step(
            [trial.number + 1 for trial in completed],
            list(best),
            where="post",
            color=ACCENT,
            label="best so far",
        )
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.legend(ncols=3, **LEGEND_ABOVE)

    parts = [
        f"trial {trial.number + 1}: {score(trial.shown)}, {trial.state}"
        for trial in known
    ]
    title = f"{search.metric} by trial"
    return draw("figure-search", title, sentence(parts), plot, 2.8)


def by_setting(search: Search, name: str) -> Markup:
    """Draws the metric of each trial over a setting."""
    known = _with_value(search)
    values = [trial.values[name] for trial in known]

    def plot(figure: Figure) -> None:
        axes = axes_of(figure, name, search.metric)
        if all(isinstance(value, int | float) for value in values):
            if min(values) > 0 and max(values) / min(values) >= _LOG_RATIO:
                axes.set_xscale("log")
                # Matplotlib's labels are formulas, which the page does not draw.
                axes.xaxis.set_major_formatter(lambda value, _: number(value))
                axes.xaxis.set_minor_formatter(NullFormatter())
            elif all(isinstance(value, int) for value in values):
                axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
            _scatter(axes, search, values)
            return
        names = list(dict.fromkeys(values))
        _scatter(axes, search, [float(names.index(value)) for value in values])
        axes.set_xticks(range(len(names)), [str(value) for value in names])
        axes.margins(x=0.2)

    parts = [
        f"{setting_value(value)}: {score(trial.shown)}"
        for value, trial in zip(values, known, strict=True)
    ]
    title = f"{search.metric} by {name}"
    return draw(f"figure-search-{name}", title, sentence(parts), plot, 2.8)


def _with_value(search: Search) -> list[Trial]:
    """Returns the trials with a metric to draw."""
    return [trial for trial in search.trials if trial.shown is not None]


def _scatter(axes: Axes, search: Search, positions: list[float]) -> None:
    """Draws the trials of `_with_value`; rings are pruned, the best stands out."""
    points = [
        (at, trial.shown, trial)
        for at, trial in zip(positions, _with_value(search), strict=True)
        if trial.shown is not None
    ]
    for state, fill in (("completed", MUTED), ("pruned", "none")):
        chosen = [(x, y) for x, y, trial in points if trial.state == state]
        if chosen:
            at, shown = zip(*chosen, strict=True)
            axes.plot(at, shown, "o", ms=5, mfc=fill, mec=MUTED, label=state)
    for x, y, trial in points:
        if trial.number == search.best:
            axes.plot([x], [y], "o", ms=11, mfc="none", mec=INK, zorder=4)
