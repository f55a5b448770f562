"""The recipe of a project, with the reason of each setting."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from contracts.metrics import Metric
from contracts.settings.data_gate import DataGateConfig
from contracts.task.definition import TaskConfig
from modules.data.threshold_interval import (
    count_rows,
    half_width,
    is_exact,
    needed_rows,
)
from pipeline.config.recipe import set_dotted
from pipeline.onboarding import guess

MOST_CUT = 0.005  # of the rows
_STANDARD_ERRORS = 1.96  # half of a 95 % interval
_LENGTH_STEP = 8
_SHORTEST = 16
_RARE_SHARE = 0.1  # of a class, below which the training loss weighs the classes
# Maximum rows, and the epochs for them: the more rows, the fewer epochs are needed.
_EPOCHS = ((5_000, 4), (20_000, 3), (100_000, 2))
# Characters that YAML refuses, and line breaks that it folds; none is beyond U+FFFF.
_ESCAPED = re.compile(
    "[^\t -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u2028\u2029\ufeff]"
)
_NOT_SHOWN = ("name", "encoder.sha256", "output")
_SECTION_COMMENTS = {
    "task": "The label and the texts. Of two classes, the second is positive.",
    "data": "Where the rows are; docs/data.md has the formats and the limits.",
    "encoder": "The pre-trained model that is fine-tuned.",
    "evaluator": "The quality that a model must reach before it is pushed.",
}

# Commented out, so that nothing changes by default.
_CHECKS = """
# Checks of the model besides its metrics: docs/checks.md. Two examples:
# checks:
#   # Rows that it must predict right: a file with the texts and the label.
#   required_rows: {file: must_pass.csv}
#   # Your own: the class MyCheck in my_checks.py, in this folder.
#   my_checks:MyCheck: {action: warn}
"""


@dataclasses.dataclass
class ProjectSettings:
    """The settings of a project's recipe.

    Attributes:
      values: Values by section and name, or by name at the top level.
      reasons: Why, by dotted key.
    """

    values: dict[str, Any]
    reasons: dict[str, str]

    def set(self, key: str, value: Any, reason: str = "") -> None:
        """Sets a value by its dotted key."""
        set_dotted(self.values, key, value)
        if reason:
            self.reasons[key] = reason

    def table(self) -> Iterator[tuple[str, str, str]]:
        """Yields key, value and reason of each setting that has a reason."""
        for section, values in self.values.items():
            settings = {section: values}
            if isinstance(values, dict):
                settings = {f"{section}.{name}": v for name, v in values.items()}
            for key, value in settings.items():
                if key in self.reasons and key not in _NOT_SHOWN:
                    yield key, _to_yaml(value), self.reasons[key]

    def to_yaml(self, head: str) -> str:
        """Returns the recipe, with a comment for each reason."""
        lines = [f"# {_escape(line)}" for line in head.split("\n")]
        for key, value in self.values.items():
            if not isinstance(value, dict):
                lines += self._entry(key, key, value, "")
                continue
            if key in _SECTION_COMMENTS:
                lines.append(f"# {_SECTION_COMMENTS[key]}")
            lines.append(f"{key}:")
            for name, setting in value.items():
                lines += self._entry(f"{key}.{name}", name, setting, "  ")
        examples = "" if "checks" in self.values else _CHECKS
        return "\n".join(lines) + "\n" + examples

    def _entry(self, key: str, name: str, value: Any, indent: str) -> list[str]:
        reason = self.reasons.get(key)
        comment = [f"{indent}# {_escape(reason)}"] if reason else []
        return [*comment, f"{indent}{name}: {_to_yaml(value)}"]


def choose_length(lengths: np.ndarray, longest: int) -> int:
    """Returns a sequence length that cuts at most one row in 200."""
    needed = int(np.quantile(lengths, 1 - MOST_CUT, method="higher"))
    return min(max(_SHORTEST, -(-needed // _LENGTH_STEP) * _LENGTH_STEP), longest)


def choose_epochs(rows: int) -> int:
    """Returns the number of epochs for a number of training rows."""
    return next((epochs for most, epochs in _EPOCHS if rows <= most), 1)


def add_gate(
    settings: ProjectSettings,
    task: TaskConfig,
    counts: Mapping[Any, int],
    labels: np.ndarray,
    limits: DataGateConfig,
) -> None:
    """Adds a threshold, and how far below the champion a model may be.

    Args:
      settings: Modified in place.
      task: The classes.
      counts: Rows of the gate's split by class, or by score.
      labels: The labels of these rows, as in `RowFacts`.
      limits: If the gate's split is too small for the deciding metric, but not for
        accuracy, accuracy gets the threshold.
    """
    numbers = np.array(list(counts.values()))
    kind = task.label_kind
    rows = kind.total(len(labels))
    thresholds = guess.guess_thresholds(task, labels)
    table, most = task.metric_table, limits.max_interval
    name = task.metric
    if name not in thresholds or (
        not is_exact(table[name], thresholds[name], numbers, most, rows)
        and "accuracy" in thresholds
        and is_exact(table["accuracy"], thresholds["accuracy"], numbers, most, rows)
    ):
        name = "accuracy"
    value = thresholds[name]
    reason = "a correlation that chance does not reach"
    if kind.names:
        reason = f"10 % above {kind.baseline_model}, relative to the gap to 1"
    if task.metric not in thresholds:
        reason += (
            f"; a model that always predicts one class can reach the best {task.metric}"
        )
    elif name != task.metric:
        counted, what = _count(table[task.metric], numbers, rows)
        needed = needed_rows(table[task.metric], thresholds[task.metric], most)
        reason += (
            f"; for {task.metric} the split has {counted} {what}, and about {needed} "
            "are needed"
        )
    settings.set("evaluator.thresholds", {name: value}, reason)
    counted, what = _count(table[name], numbers, rows)
    error = half_width(table[name], value, counted) / _STANDARD_ERRORS
    settings.set(
        "evaluator.max_regression",
        {name: max(0.01, round(error, 2))},
        f"the standard error on {counted} {what}",
    )


def _count(metric: Metric, counts: np.ndarray, rows: int | None) -> tuple[int, str]:
    """Returns the number of the rows that decide a metric, and their kind."""
    counted, kind = count_rows(metric, counts, rows)
    return counted, kind.rstrip(",")


def add_class_weights(
    settings: ProjectSettings, counts: dict[str, int], rows: int
) -> None:
    """Weighs the classes in the training loss if one of them is rare.

    A gate on accuracy gets no weights, which trade accuracy for the rare class.
    """
    if "accuracy" in settings.values["evaluator"]["thresholds"]:
        return
    share = min(counts.values()) / rows
    if share < _RARE_SHARE:
        reason = f"the rarest class has {share:.1%} of the rows"
        settings.set("trainer.class_weights", "auto", reason)


def _to_yaml(value: Any) -> str:
    """Returns a value as JSON, which is also YAML."""
    return _escape(json.dumps(value, ensure_ascii=False))


def _escape(text: str) -> str:
    """Returns one line of characters that YAML allows, the others as in JSON."""
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
