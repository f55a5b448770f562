"""What is fitted on `eval` after a training: the temperature and the thresholds."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from modules.config.decision import ONE_LABEL, DecisionConfig
from modules.config.task import EVAL_SPLIT, TaskConfig
from modules.evaluation import calibration
from modules.evaluation.decision import choose_threshold, measure
from modules.evaluation.prediction_files import Predictions
from modules.export.description import TEMPERATURE, THRESHOLD
from modules.metrics import Threshold, of_two_classes

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FittedOutputs:
    """The predictions of all evaluated splits, and what makes them of the logits.

    Attributes:
      predictions: Those of the exported model.
      temperature: What the logits are divided by; None if nothing is fitted.
      threshold: As in `Rows.of`.
      calibration: The temperature, and what it changes, for the record.
      decision: The threshold, and what it leads to, for the record. Of several labels,
        `labels` has a record for each.
    """

    predictions: dict[str, Predictions]
    temperature: float | None = None
    threshold: Threshold = None
    calibration: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None

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
    decided: dict[str, Any]
    if task.is_multilabel:
        by_label = {
            name: _decide(
                decision, ONE_LABEL, _of_label(predictions, index), f" of {name}"
            )
            for index, name in enumerate(task.classes)
        }
        decided = {
            "by": decision.describe(),
            "threshold": [record["threshold"] for record in by_label.values()],
            "split": EVAL_SPLIT,
            "labels": by_label,
        }
    else:
        rows_by_split = {
            split: (p.labels, p.outputs) for split, p in predictions.items()
        }
        decided = _decide(decision, task.classes, rows_by_split)
    threshold = decided["threshold"]
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


def _of_label(
    predictions: dict[str, Predictions], index: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns labels and probabilities of one label of several, as two classes."""
    return {
        split: (p.labels[:, index], of_two_classes(p.outputs[:, index]))
        for split, p in predictions.items()
    }


def _decide(
    decision: DecisionConfig,
    classes: Sequence[str],
    rows_by_split: dict[str, tuple[np.ndarray, np.ndarray]],
    of_label: str = "",
) -> dict[str, Any]:
    """Chooses a threshold, and describes what it leads to.

    Args:
      decision: What it is chosen by.
      classes: The two classes.
      rows_by_split: Labels int64[rows], and probabilities float[rows, 2].
      of_label: Names the label in a warning.
    """
    chosen, points = choose_threshold(classes, decision, *rows_by_split[EVAL_SPLIT])
    default, measured = (
        {
            split: dataclasses.asdict(measure(classes, decision, *rows, value))
            for split, rows in rows_by_split.items()
        }
        for value in (0.5, chosen.threshold)
    )
    by = decision.describe()
    least = decision.min_precision
    if least is not None and not chosen.metrics["precision"] >= least:
        by = f"the highest precision, because no threshold reaches {least:g}"
        logger.warning("task.decision%s: %s of %s", of_label, by, EVAL_SPLIT)
    return {
        "by": by,
        "value": decision.value_name,
        "threshold": chosen.threshold,
        "split": EVAL_SPLIT,
        "default": default,
        "chosen": measured,
        "curve": [dataclasses.asdict(point) for point in points],
    }
