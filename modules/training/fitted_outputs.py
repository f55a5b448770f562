"""What is fitted on `eval` after a training: the temperature and the threshold."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from modules.config.decision import DecisionConfig
from modules.config.task import EVAL_SPLIT, TaskConfig
from modules.evaluation import calibration
from modules.evaluation.decision import choose_threshold, measure
from modules.evaluation.prediction_files import Predictions
from modules.export.description import TEMPERATURE, THRESHOLD

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FittedOutputs:
    """The predictions of all evaluated splits, and what makes them of the logits.

    Attributes:
      predictions: Those of the exported model.
      temperature: What the logits are divided by; None if nothing is fitted.
      threshold: As in `Rows.of`.
      calibration: The temperature, and what it changes, for the record.
      decision: The threshold, and what it leads to, for the record.
    """

    predictions: dict[str, Predictions]
    temperature: float | None = None
    threshold: float | None = None
    calibration: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None

    @property
    def description(self) -> dict[str, float]:
        """Both numbers, for the description of the exported model."""
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
    if task.classes is None:
        return FittedOutputs(predictions)
    temperature, calibrated = None, None
    if scales:
        rows = predictions[EVAL_SPLIT]
        temperature = calibration.fit_temperature(rows.labels, rows.outputs)
        scaled = {split: p.scale(temperature) for split, p in predictions.items()}
        before, after = (
            {
                split: dataclasses.asdict(calibration.measure(p.labels, p.outputs))
                for split, p in of_splits.items()
            }
            for of_splits in (predictions, scaled)
        )
        calibrated = {
            "temperature": temperature,
            "split": EVAL_SPLIT,
            "before": before,
            "after": after,
        }
        predictions = scaled
    if decision is None:
        return FittedOutputs(predictions, temperature, calibration=calibrated)
    rows = predictions[EVAL_SPLIT]
    chosen, points = choose_threshold(task.classes, decision, rows.labels, rows.outputs)
    threshold = chosen.threshold
    default, measured = (
        {
            split: dataclasses.asdict(
                measure(task.classes, decision, p.labels, p.outputs, value)
            )
            for split, p in predictions.items()
        }
        for value in (0.5, threshold)
    )
    by = decision.describe()
    least = decision.min_precision
    if least is not None and not chosen.metrics["precision"] >= least:
        by = f"the highest precision, because no threshold reaches {least:g}"
        logger.warning("task.decision: %s of %s", by, EVAL_SPLIT)
    decided = {
        "by": by,
        "value": decision.value_name,
        "threshold": threshold,
        "split": EVAL_SPLIT,
        "default": default,
        "chosen": measured,
        "curve": [dataclasses.asdict(point) for point in points],
    }
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
