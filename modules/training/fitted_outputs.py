"""What is fitted on `eval` after a training: the temperature and the thresholds."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

import numpy as np

from contracts.metrics import Threshold, of_two_classes
from contracts.records.probabilities import (
    Decision,
    DecisionPoint,
    LabelDecisions,
    TemperatureScaling,
)
from contracts.task.decision import (
    MICRO_F1,
    ONE_LABEL,
    DecisionConfig,
    describe_threshold,
)
from contracts.task.definition import EVAL_SPLIT, TaskConfig
from contracts.versions.exported_model import TEMPERATURE, THRESHOLD
from modules.evaluation import calibration
from modules.evaluation.decision import (
    LEAST_POSITIVE_ROWS,
    choose_label_thresholds,
    choose_threshold,
    measure,
)
from modules.evaluation.prediction_files import Predictions

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FittedOutputs:
    """The predictions of all evaluated splits, and what makes them of the logits.

    Attributes:
      predictions: Those of the exported model.
      temperature: What the logits are divided by; None if nothing is fitted.
      threshold: As in `Rows.of`.
      calibration: The temperature, and what it changes.
      decision: The threshold, or one of each label, and what it leads to.
    """

    predictions: dict[str, Predictions]
    temperature: float | None = None
    threshold: Threshold = None
    calibration: TemperatureScaling | None = None
    decision: Decision | LabelDecisions | None = None

    @property
    def description(self) -> dict[str, Threshold]:
        """Temperature and threshold, for the description of the exported model."""
        values = {TEMPERATURE: self.temperature, THRESHOLD: self.threshold}
        return {key: value for key, value in values.items() if value is not None}


def fit(
    task: TaskConfig,
    predictions: dict[str, Predictions],
    *,
    scales: bool,
    decision: DecisionConfig | None,
) -> FittedOutputs:
    """Fits the temperature, and then the threshold, on `eval`.

    Args:
      task: The classes. Nothing is fitted to scores.
      predictions: The model's by split, without a temperature.
      scales: Whether to fit a temperature.
      decision: What the threshold is chosen by; None chooses none.
    """
    kind = task.label_kind
    if not kind.names:
        return FittedOutputs(predictions)
    temperature, calibrated = None, None
    if scales:
        rows = predictions[EVAL_SPLIT]
        temperature = calibration.fit_temperature(rows.labels, rows.outputs)
        scaled = {split: p.scale(temperature) for split, p in predictions.items()}
        before, after = (
            {
                split: calibration.measure(p.labels, p.outputs)
                for split, p in of_splits.items()
            }
            for of_splits in (predictions, scaled)
        )
        calibrated = TemperatureScaling(
            temperature=temperature, split=EVAL_SPLIT, before=before, after=after
        )
        predictions = scaled
    if decision is None:
        return FittedOutputs(predictions, temperature, calibration=calibrated)
    decided: Decision | LabelDecisions = (
        _decide_on_labels(kind.names, decision, predictions)
        if predictions[EVAL_SPLIT].rows.has_label_sets
        else _decide(kind.names, decision, predictions)
    )
    threshold = decided.threshold
    return FittedOutputs(
        {
            split: dataclasses.replace(p, threshold=threshold)
            for split, p in predictions.items()
        },
        temperature,
        threshold,
        calibrated,
        decided,
    )


def _decide(
    classes: Sequence[str],
    decision: DecisionConfig,
    predictions: dict[str, Predictions],
) -> Decision:
    """Chooses the threshold of two classes."""
    rows_by_split = {split: (p.labels, p.outputs) for split, p in predictions.items()}
    chosen, points = choose_threshold(classes, decision, *rows_by_split[EVAL_SPLIT])
    record = _describe(classes, decision, rows_by_split, chosen)
    if record.by != decision.describe():
        logger.warning("task.decision: %s of %s", record.by, EVAL_SPLIT)
    return record.model_copy(update={"curve": points})


def _decide_on_labels(
    names: Sequence[str], decision: DecisionConfig, predictions: dict[str, Predictions]
) -> LabelDecisions:
    """Chooses the thresholds of several labels."""
    labels = predictions[EVAL_SPLIT].labels
    points, rare = choose_label_thresholds(
        decision, labels, predictions[EVAL_SPLIT].outputs
    )
    is_one = decision.maximize == MICRO_F1
    rare_rows = int(labels[:, rare].sum())
    is_chosen = (labels.sum() if is_one else rare_rows) >= LEAST_POSITIVE_ROWS
    records, missed = {}, []
    for index, (name, point) in enumerate(zip(names, points, strict=True)):
        rows_by_split = {
            split: (p.labels[:, index], of_two_classes(p.outputs[:, index]))
            for split, p in predictions.items()
        }
        record = _describe(ONE_LABEL, decision, rows_by_split, point)
        if index in rare and not is_chosen:
            record = record.model_copy(update={"by": "the default"})
        elif _is_missed(decision, point):
            missed.append(name)
        records[name] = record
    notes = []
    if rare:
        if not is_chosen:
            rule = "have the threshold 0.5"
        elif is_one:
            rule = "have the threshold of all labels"
        else:
            rule = "share a threshold, and are "
            rule += describe_threshold(points[rare[0]].threshold)
        notes.append(
            f"labels with fewer than {LEAST_POSITIVE_ROWS} positive rows in "
            f"{EVAL_SPLIT}, {rare_rows} in total, {rule}: "
            f"{', '.join(names[index] for index in rare)}"
        )
    if missed:
        notes.append(
            f"no threshold reaches a precision of {decision.min_precision:g} on "
            f"{EVAL_SPLIT}, so the one with the highest precision is used: "
            f"{', '.join(missed)}"
        )
    for note in notes:
        logger.warning("task.decision: %s", note)
    return LabelDecisions(
        by=decision.describe(),
        threshold=[point.threshold for point in points],
        split=EVAL_SPLIT,
        labels=records,
        notes=notes,
    )


def _is_missed(decision: DecisionConfig, chosen: DecisionPoint) -> bool:
    """Returns whether no threshold has the least precision."""
    least, precision = decision.min_precision, chosen.metrics["precision"]
    return least is not None and precision is not None and precision < least


def _describe(
    classes: Sequence[str],
    decision: DecisionConfig,
    rows_by_split: dict[str, tuple[np.ndarray, np.ndarray]],
    chosen: DecisionPoint,
) -> Decision:
    """Returns a record of a threshold and its metrics in each split.

    Args:
      classes: The two classes.
      decision: The rule.
      rows_by_split: Labels int64[rows], and probabilities float[rows, 2].
      chosen: The threshold, and its metrics on the rows that it was chosen on.
    """
    default, measured = (
        {
            split: measure(classes, decision, *rows, value)
            for split, rows in rows_by_split.items()
        }
        for value in (0.5, chosen.threshold)
    )
    by = decision.describe()
    if not np.isfinite(rows_by_split[EVAL_SPLIT][1]).all():
        by = "the default, because a probability is not finite"
    elif _is_missed(decision, chosen):
        by = "the highest precision, because no threshold reaches "
        by += f"{decision.min_precision:g}"
    return Decision(
        by=by,
        value=decision.value_name,
        threshold=chosen.threshold,
        split=EVAL_SPLIT,
        default=default,
        chosen=measured,
    )
