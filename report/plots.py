"""The figures of a report."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure, FigureBase
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from contracts import wording
from contracts.records.data import Lengths
from contracts.records.probabilities import Decision
from report.content import (
    Abstention,
    Batch,
    Classification,
    PrecisionRecall,
    Regression,
)
from report.curves import points_of
from report.formatting import number, percent, score, threshold
from report.svg import (
    ACCENT,
    BAND,
    DASHES,
    INK,
    LEGEND_ABOVE,
    MUTED,
    SERIES,
    SMALL_WIDTH,
    axes_of,
    draw,
    label_of,
    sentence,
)

# Without the ends, which are hard to see in dark and in light mode.
_COLOURS = ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0.1, 0.85, 256)))


def confusion(classification: Classification, classes: Sequence[str]) -> Markup:
    """Draws the confusion matrix of many classes; each row is divided by its sum.

    Args:
      classification: Its `confusion` is empty if a row may have several labels.
      classes: The names.

    Returns:
      The figure; empty without a matrix.
    """
    if not classification.confusion:
        return Markup("")
    counts = np.asarray(classification.confusion, float)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)

    def plot(figure: Figure) -> None:
        axes = axes_of(figure, "predicted class", "label")
        axes.grid(visible=False)
        _image(axes, np.where(shares > 0, shares, np.nan))
        every = max(1, math.ceil(len(classes) / 30))
        names = [label_of(name) for name in classes]
        ticks = range(0, len(classes), every)
        size = 6 if len(classes) > 15 else 8
        axes.set_xticks(ticks, names[::every], rotation=90, fontsize=size)
        axes.set_yticks(ticks, names[::every], fontsize=size)

    correct = counts.trace() / max(counts.sum(), 1)
    text = (
        f"{len(classes)} classes, {percent(float(correct))} of {number(counts.sum())} "
        "rows on the diagonal, which holds the correct predictions"
    )
    return draw("figure-confusion", "Confusion matrix", sentence([text]), plot, 5)


def precision_recall(curves: Sequence[PrecisionRecall]) -> Markup:
    """Draws precision-recall curves; if there are many, the five worst stand out.

    A class without rows has no curve. Without any curve, the figure is empty.
    """
    curves = [curve for curve in curves if curve.curve.x]
    if not curves:
        return Markup("")
    worst = sorted(curves, key=lambda curve: curve.average_precision)[: len(DASHES)]

    def plot(figure: Figure) -> None:
        axes = axes_of(figure, "recall", "precision")
        for curve in curves:
            if curve not in worst:
                axes.plot(*points_of(curve.curve), color=MUTED, alpha=0.35, lw=0.8)
        for index, curve in enumerate(worst):
            area = score(curve.average_precision)
            axes.plot(
                *points_of(curve.curve),
                color=SERIES[index] if len(curves) > 1 else ACCENT,
                ls=DASHES[index],
                drawstyle="steps-post",
                label=f"{label_of(curve.class_name)}, AP {area}",
            )
        if len(curves) == 1:
            (curve,) = curves
            chance = f"chance, {score(curve.positives)}"
            axes.axhline(curve.positives, color=MUTED, ls=DASHES[2], label=chance)
        axes.set(xlim=(0, 1.02), ylim=(0, 1.04))
        axes.legend(loc="lower left", fontsize=9)

    parts = [
        f"{curve.class_name}: average precision {score(curve.average_precision)}, "
        f"chance {score(curve.positives)}"
        for curve in worst
    ]
    if len(worst) < len(curves):
        count = len(curves) - len(worst)
        verb = "is" if count == 1 else "are"
        parts.append(
            f"{wording.count(count, 'further class', 'further classes')} {verb} better"
        )
    title = "Precision and recall"
    return draw("figure-precision-recall", title, sentence(parts), plot, 3.6)


def reliability(classification: Classification) -> Markup:
    """Draws a reliability diagram, and below it how many rows each bin has."""
    bins = classification.calibration
    probability, share, unit = "highest probability", "correct", "row"
    if classification.label_rows:
        probability, share, unit = "probability of a label", "with it", "label"

    def plot(figure: Figure) -> None:
        above, below = figure.subplots(
            2, sharex=True, gridspec_kw={"height_ratios": [3, 1]}
        )
        filled = [b for b in bins if b.rows]
        above.bar(
            [b.low for b in filled],
            [b.accuracy for b in filled],
            [b.high - b.low for b in filled],
            align="edge",
            color=BAND,
            edgecolor=ACCENT,
        )
        points = [b.confidence for b in filled], [b.accuracy for b in filled]
        above.plot(*points, "o", ms=4, color=ACCENT, label=f"share {share}")
        if unscaled := [b for b in classification.unscaled if b.rows]:
            points = [b.confidence for b in unscaled], [b.accuracy for b in unscaled]
            label = "without the temperature"
            above.plot(*points, "o", ms=4, color=MUTED, mfc="none", label=label)
        above.plot(
            [0, 1], [0, 1], color=MUTED, ls=DASHES[1], lw=1.2, label="calibrated"
        )
        above.set(ylim=(0, 1.04), ylabel=share)
        above.legend(ncols=2, **LEGEND_ABOVE)
        lefts, widths = [b.low for b in bins], [b.high - b.low for b in bins]
        rows = [b.rows for b in bins]
        below.bar(lefts, rows, widths, align="edge", color=MUTED, alpha=0.6)
        below.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        below.set(xlabel=probability, ylabel=f"{unit}s", xlim=(0, 1))

    error = classification.expected_calibration_error
    parts = [f"expected calibration error {score(error)}"] + [
        f"{probability} {number(b.low)} to {number(b.high)}: "
        f"{wording.count(b.rows, unit)}, mean {score(b.confidence)}, "
        f"{percent(b.accuracy)} {share}"
        for b in bins
        if b.rows
    ]
    return draw("figure-reliability", "Reliability", sentence(parts), plot, 3.9)


def decision(decision: Decision) -> Markup:
    """Draws metrics by the threshold, with the chosen one."""
    points = decision.curve
    curves = {
        name: [
            math.nan if (value := p.metrics[name]) is None else value for p in points
        ]
        for name in ("precision", "recall", "f1")
    }

    def plot(figure: Figure) -> None:
        axes = figure.subplots()
        thresholds = [point.threshold for point in points]
        for (name, values), dashes in zip(curves.items(), DASHES, strict=False):
            axes.plot(thresholds, values, color=ACCENT, ls=dashes, lw=1.2, label=name)
        axes.axvline(decision.threshold, color=MUTED, lw=1.2, label="chosen")
        axes.set(
            xlim=(0, 1),
            ylim=(0, 1.04),
            xlabel="threshold of the probability",
            ylabel="metric",
        )
        axes.legend(ncols=2, **LEGEND_ABOVE)

    chosen = decision.chosen[decision.split]
    parts = [f"chosen {threshold(decision.threshold)}"] + [
        f"{name} {score(value)}" for name, value in chosen.metrics.items()
    ]
    return draw("figure-decision", "Thresholds", sentence(parts), plot, 3.2)


def abstention(splits: Sequence[Abstention]) -> Markup:
    """Draws the accuracy of the rows with a class over the share of those without."""

    def plot(figure: Figure) -> None:
        axes = axes_of(figure, "share without a class", "accuracy of the others")
        for index, split in enumerate(splits):
            axes.plot(
                *points_of(split.curve),
                color=SERIES[index % len(SERIES)],
                ls=DASHES[index % len(DASHES)],
                label=label_of(split.split),
            )
        axes.set_xlim(0, 1)
        axes.legend(ncols=3, **LEGEND_ABOVE)

    parts = [
        f"{split.split}: with a least probability of {number(point.min_probability)}, "
        f"{percent(point.abstained / split.rows)} of {number(split.rows)} rows have no "
        "class"
        + (
            f", and the accuracy of the others is {score(point.accuracy)}"
            if point.abstained < split.rows
            else ""
        )
        for split in splits
        for point in split.points
    ]
    return draw("figure-abstention", "Abstaining", sentence(parts), plot, 2.8)


def scores(regression: Regression) -> Markup:
    """Draws predicted scores over labels."""
    labels, predictions = np.asarray(regression.labels), np.asarray(regression.scores)

    def plot(figure: Figure) -> None:
        axes = axes_of(figure, "label", "predicted score")
        ends = [np.nanmin(labels), np.nanmax(labels)]
        axes.plot(ends, ends, color=MUTED, ls=DASHES[1], lw=1.2)
        axes.plot(labels, predictions, "o", ms=3.5, mew=0, alpha=0.45, color=ACCENT)

    error = float(np.nanmean(np.abs(predictions - labels)))
    text = (
        f"{wording.count(len(labels), 'row')}, predicted scores from "
        f"{number(_least(predictions))} to "
        f"{number(_most(predictions))}, mean absolute error {number(error)}; the "
        "dashed line is a perfect prediction"
    )
    title = "Predicted scores and labels"
    return draw("figure-scores", title, sentence([text]), plot, 4.2)


def lengths(split: str, histogram: Lengths, max_seq_length: int) -> Markup:
    """Draws a histogram of the lengths of a split's rows, and where they are cut."""

    def plot(figure: Figure) -> None:
        axes = axes_of(figure, "tokens", "rows")
        axes.grid(visible=False, axis="x")
        axes.stairs(histogram.counts, histogram.edges, fill=True, color=BAND)
        axes.stairs(histogram.counts, histogram.edges, color=ACCENT)
        axes.axvline(max_seq_length, color=INK, ls=DASHES[1], lw=1.2)
        label = f"cut at {max_seq_length}"
        end = axes.get_xaxis_transform()
        axes.text(max_seq_length, 1.02, label, transform=end, ha="right")
        axes.set_xlim(left=0, right=max(max_seq_length * 1.04, histogram.edges[-1]))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))

    rows = sum(histogram.counts)
    most = int(np.argmax(histogram.counts)) if rows else 0
    text = (
        f"{wording.count(rows, 'row')}; most have {number(histogram.edges[most])} to "
        f"{number(histogram.edges[most + 1])} tokens; truncation at {max_seq_length} "
        f"cut {wording.count(histogram.cut_rows, 'row')} and "
        f"{wording.count(histogram.cut_tokens, 'token')}"
    )
    name = "figure-lengths-" + "".join(c if c.isalnum() else "-" for c in split)
    return draw(
        name, f"Tokens of the rows of {split}", sentence([text]), plot, 2.4, SMALL_WIDTH
    )


def batch(content: Batch) -> list[Markup]:
    """Draws ids, mask and segments of a batch as heat maps."""
    maps = _heat_maps(content)
    rows, length = maps["mask"].shape
    shape = f"{wording.count(rows, 'row')} of {wording.count(length, 'position')}"
    ids = maps["ids"]
    tokens = int(np.nansum(maps["mask"]))
    share = percent(tokens / max(rows * length, 1))
    second = int(np.nansum(maps["segments"] > 0))
    texts = {
        "ids": f"ids from {number(_least(ids))} to {number(_most(ids))}",
        "mask": f"{wording.count(tokens, 'token')}, {share} of them filled, the "
        "others are padding",
        "segments": f"{wording.count(second, 'token')} of segment 1",
    }
    height = 0.9 + 2.4 * min(1.0, rows / 32)
    return [
        draw(
            f"figure-batch-{name}",
            name,
            sentence([shape, texts[name]]),
            functools.partial(_plot_heat_map, values=values),
            height,
            SMALL_WIDTH,
        )
        for name, values in maps.items()
    ]


def batch_picture(content: Batch) -> Figure:
    """Draws the heat maps of `batch` side by side, each with its scale, for a file."""
    picture = Figure(figsize=(12, 4), layout="constrained")
    maps = _heat_maps(content)
    parts = picture.subfigures(1, len(maps), squeeze=False)[0]
    for part, (name, values) in zip(parts, maps.items(), strict=True):
        image = _plot_heat_map(part, values)
        image.axes.set_title(name)
        part.colorbar(image)
    return picture


def _heat_maps(content: Batch) -> dict[str, np.ndarray]:
    """Returns values by name, each float64[batch, seq_len], NaN for padding."""
    is_token = np.asarray(content.input_mask) > 0
    values = {
        "ids": content.input_word_ids,
        "mask": content.input_mask,
        "segments": content.input_type_ids,
    }
    return {name: np.where(is_token, rows, np.nan) for name, rows in values.items()}


def _plot_heat_map(figure: FigureBase, values: np.ndarray) -> AxesImage:
    axes = axes_of(figure, "position", "row of the batch")
    axes.grid(visible=False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(6, integer=True))
    return _image(axes, values)


def _image(axes: Axes, values: np.ndarray) -> AxesImage:
    """Draws values from 0 to their highest, at least 1; NaN is transparent."""
    return axes.imshow(
        values,
        _COLOURS,
        vmin=0,
        vmax=max(_most(values), 1),
        interpolation="none",
        aspect="auto",
    )


def _least(values: np.ndarray) -> float:
    return float(np.nanmin(values, initial=math.inf))


def _most(values: np.ndarray) -> float:
    return float(np.nanmax(values, initial=-math.inf))
