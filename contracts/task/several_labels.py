"""Any number of several labels for each row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from contracts import metrics
from contracts.metrics import Rows, Threshold
from contracts.task import label_cells
from contracts.task.decision import MICRO_F1
from contracts.task.label_cells import canonical_label, to_text
from contracts.task.label_kind import Label, LabelKind, is_nan, measure_constant

ALL_ROWS = -1  # key of `slice_keys` for all rows of a slice
# The positive rows of a label weigh at most this many times the negative ones by
# themselves. More would let a handful of rows decide each step.
_MOST_AUTO_WEIGHT = 20.0


@dataclasses.dataclass(frozen=True)
class SeveralLabels(LabelKind):
    """Each row has any number of the labels, or none: 0 or 1 for each of them."""

    noun = "label"
    has_flags = True
    drift_test = "labels"
    sections = frozenset({"classification"})
    fits_log_odds = True
    baseline = "constant labels"
    baseline_model = "a model that always predicts the same labels"
    better_metrics = "micro_f1"
    # Weights do not change how often a label is predicted.
    rare_class_setting = "task.decision"
    suggested_maximum = MICRO_F1
    default_rule = "A label is predicted from a probability of 0.5 on."
    calibrated = "the probability of a label and the share of rows with it"
    problem_type = "multi_label_classification"

    @property
    def metric_kind(self) -> metrics.Kind:
        """`multilabel`."""
        return "multilabel"

    @property
    def decided_names(self) -> tuple[str, ...]:
        """All labels."""
        return self.names

    @property
    def label_size(self) -> int:
        """A value for each label."""
        return self.outputs

    @property
    def free_names(self) -> int:
        """No label follows from the others."""
        return len(self.names)

    @property
    def high(self) -> float:
        """1, for a label that a row has."""
        return 1

    def describe(self, label: Any) -> str:
        """Returns the names of a row's labels, which `label_cells.join` joins."""
        if is_nan(label):
            return "nan"
        names = zip(self.names, label, strict=True)
        return label_cells.join(tuple(name for name, is_set in names if is_set))

    def parse_description(self, text: str) -> list[int]:
        """Returns 0 or 1 for each label."""
        names = self.split_names(text)
        return [int(name in names) for name in self.names]

    def split_names(self, text: str) -> list[str]:
        """Returns the names of a row's labels."""
        return label_cells.read_cell(text, label_cells.SEPARATOR)

    def describe_constant(self, label: Any, most: int) -> tuple[str, str]:
        """Describes the labels of all rows."""
        return f"labels `{self.describe(label) or '(none)'}`", "other labels"

    def describe_purpose(self, texts: str) -> str:
        """Returns what a model predicts, after "to"."""
        return (
            f"predict which of {self.outputs} labels {texts} have, any number of them"
        )

    def describe_outputs(self) -> str:
        """Returns what a model predicts, after "predicts"."""
        return f"any of the labels {', '.join(self.names)}"

    def parse_cell(
        self,
        value: Any,
        separator: str,
        parse: Callable[[Any], float],
        labels: str | None,
    ) -> Label:
        """Returns 0 or 1 for each label."""
        cell = label_cells.read_cell(value, separator)
        # As indices, flags of two labels would be read without an error.
        texts = {canonical_label(to_text(name)) for name in cell}
        if labels is None and self.outputs == 2 and texts == {"0", "1"}:
            advice = ", or set task.labels to index"
            raise label_cells.CellError(label_cells.describe_flags(value, advice))
        indices = {int(parse(name)) for name in cell}
        return [int(index in indices) for index in range(self.outputs)]

    def from_table(self, values: np.ndarray) -> np.ndarray:
        """Returns 0 or 1 for each label, [rows, labels]."""
        return values

    def class_ids(self, label: Any) -> list[int]:
        """Returns the indices of the labels that a row has."""
        return [index for index, flag in enumerate(label) if flag]

    def count(self, labels: np.ndarray) -> np.ndarray:
        """Returns the rows of each label, int64[labels]."""
        return labels.astype(int).reshape(-1, self.outputs).sum(axis=0)

    def total(self, rows: int) -> int:
        """Returns all rows, since a row counts for any number of labels."""
        return rows

    def slice_keys(self, label: Any, counted: Collection[float]) -> list[float]:
        """Returns `ALL_ROWS` and the indices of the labels that a row has."""
        is_key = isinstance(label, int | float)
        return [label] if is_key else [ALL_ROWS, *self.class_ids(label)]

    def constant_models(
        self, labels: np.ndarray, names: Collection[str]
    ) -> Iterator[tuple[list[str], dict[str, float]]]:
        """Computes metrics of models that predict the same labels for every row.

        No label is predicted, then the most frequent one, the two most frequent ones,
        up to all.
        """
        sets, weights = np.unique(labels, axis=0, return_counts=True)
        outputs = np.zeros_like(sets)
        by_rows = np.argsort(-labels.sum(axis=0), kind="stable").tolist()
        for most in range(self.outputs + 1):
            outputs[:, by_rows[:most]] = 1
            values = measure_constant(self, Rows.of(sets, outputs), weights, names)
            yield [self.names[index] for index in by_rows[:most]], values

    def majority_metrics(
        self, labels: np.ndarray, train_counts: Mapping[str, float], metric: str
    ) -> dict[str, float]:
        """Returns the metrics of the labels that reach most if always predicted."""
        if not train_counts:
            return {}
        names = self._constant_metrics
        by = metric if metric in names else names[0]
        models = (values for _, values in self.constant_models(labels, names))
        return max(models, key=lambda values: metrics.score(values[by]))

    def predict(self, outputs: np.ndarray, threshold: Threshold = None) -> np.ndarray:
        """Returns 1 for each predicted label and 0, int64[rows, labels]."""
        return metrics.predict_labels(outputs, threshold)

    def from_logits(self, logits: np.ndarray, temperature: float) -> np.ndarray:
        """Returns the sigmoid of each label, float[rows, labels]."""
        # In float64, and without the overflow of a large exponential.
        scaled = logits.astype(np.float64) / temperature
        return np.exp(-np.logaddexp(0, -scaled))

    def served_predictions(
        self, class_names: list[str], labels: list[Any]
    ) -> np.ndarray | None:
        """Returns the served labels, int64[rows, labels]."""
        return np.array(labels)

    def fits(self, outputs: int, class_name: str | None, labels: Any) -> bool:
        """Returns whether each label was served as 0 or 1."""
        return len(labels) == self.outputs

    def compare(
        self, before: np.ndarray, after: np.ndarray, threshold: Threshold
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compares the probability that changes most."""
        labels, others = (self.predict(part, threshold) for part in (before, after))
        return np.abs(after - before).max(axis=1), (labels != others).any(axis=1)

    def likelihoods(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Returns the probability of all labels of each row, [models, rows]."""
        return np.where(labels == 1, outputs, 1 - outputs).prod(axis=2)

    def columns(self, labels: np.ndarray) -> list[np.ndarray]:
        """Returns 0 and 1 for each label."""
        return list(labels.T)

    def join_columns(self, outputs: list[np.ndarray]) -> np.ndarray:
        """Returns the probability of each label, float[rows, labels]."""
        return np.stack([part[:, metrics.POSITIVE_CLASS] for part in outputs], axis=1)

    @property
    def weight_groups(self) -> int:
        """The rows without each label, and then the rows with it."""
        return 2 * self.outputs

    def group_ids(self, labels: np.ndarray) -> np.ndarray:
        """Returns the group of each label of each row."""
        return np.ravel(labels * self.outputs + np.arange(self.outputs))

    def spread_weights(self, by_name: list[float]) -> np.ndarray:
        """Returns 1 for rows without a label, and its weight for rows with it."""
        return np.array([*np.ones(self.outputs), *by_name])

    def balance(self, rows: np.ndarray) -> np.ndarray:
        """Returns the ratio of the rows without and with each label."""
        without, having = np.split(rows, 2)
        ratios = np.clip(without / having, 1 / _MOST_AUTO_WEIGHT, _MOST_AUTO_WEIGHT)
        return self.spread_weights(ratios.tolist())

    def count_names(self, rows: np.ndarray) -> np.ndarray:
        """Returns the rows with each label."""
        return np.split(rows, 2)[1]

    def name_weights(self, weights: list[float]) -> dict[str, float]:
        """Returns the weight of each label relative to rows without it."""
        without, having = np.split(np.array(weights), 2)
        return super().name_weights((having / without).tolist())
