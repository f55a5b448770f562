"""One of several classes for each row."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from contracts import metrics
from contracts.metrics import POSITIVE_CLASS, Rows, Threshold
from contracts.task.label_kind import (
    LabelKind,
    describe_number,
    is_nan,
    measure_constant,
)


@dataclasses.dataclass(frozen=True)
class Classes(LabelKind):
    """Each row has one class. Of two classes, the second is the positive one."""

    noun = "class"
    drift_test = "classes"
    sections = frozenset({"classification", "confusion", "abstention"})
    baseline = "majority class"
    baseline_model = "the majority-class baseline"
    calibrated = "a prediction's probability and the share of correct predictions"
    problem_type = "single_label_classification"

    @property
    def metric_kind(self) -> metrics.Kind:
        """`binary` or `multiclass`."""
        return "binary" if len(self.names) == 2 else "multiclass"

    @property
    def decided_names(self) -> tuple[str, ...]:
        """The positive class of two."""
        return self.names[POSITIVE_CLASS:] if len(self.names) == 2 else ()

    def describe(self, label: Any) -> str:
        """Returns the name of a class by its index."""
        return describe_number(label) if is_nan(label) else self.names[int(label)]

    def parse_description(self, text: str) -> int:
        """Returns the index of a class by its name."""
        return self.names.index(text)

    def describe_constant(self, label: Any, most: int) -> tuple[str, str]:
        """Describes the class of all rows, and some of the other classes."""
        name = self.describe(label)
        others = [other for other in self.names if other != name]
        return f"class `{name}`", " or ".join(others[:most])

    def describe_purpose(self, texts: str) -> str:
        """Returns what a model predicts, after "to"."""
        return f"predict which of {len(self.names)} classes {texts} belong to"

    def describe_outputs(self) -> str:
        """Returns what a model predicts, after "predicts"."""
        return f"the classes {', '.join(self.names)}"

    def count(self, labels: np.ndarray) -> np.ndarray:
        """Returns the rows of each class, int64[classes]."""
        return np.bincount(labels.astype(int), minlength=self.outputs)

    def constant_models(
        self, labels: np.ndarray, names: Collection[str]
    ) -> Iterator[tuple[list[str], dict[str, float]]]:
        """Computes metrics of models that predict one class for every row."""
        counts = self.count(labels)
        for index, name in enumerate(self.names):
            yield [name], self._of_constant(index, counts, names)

    def majority_metrics(
        self, labels: np.ndarray, train_counts: Mapping[str, float], metric: str
    ) -> dict[str, float]:
        """Returns the metrics of the training split's most frequent class."""
        if not train_counts:
            return {}
        majority = max(train_counts, key=lambda name: train_counts[name])
        index = self.names.index(majority)
        return self._of_constant(index, self.count(labels), self._constant_metrics)

    def predict(self, outputs: np.ndarray, threshold: Threshold = None) -> np.ndarray:
        """Returns the predicted classes, int64[rows]."""
        return metrics.predict_classes(outputs, threshold)

    def from_logits(self, logits: np.ndarray, temperature: float) -> np.ndarray:
        """Returns the softmax, float[rows, classes]."""
        shifted = (logits - logits.max(axis=1, keepdims=True)) / temperature
        exponentials = np.exp(shifted)
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    def served_predictions(
        self, class_names: list[str], labels: list[Any]
    ) -> np.ndarray | None:
        """Returns the served classes, because a model may have a threshold."""
        return np.array([self.names.index(name) for name in class_names])

    def fits(self, outputs: int, class_name: str | None, labels: Any) -> bool:
        """Returns whether the class and the number of outputs are those of the task."""
        return class_name in self.names and outputs == self.outputs

    def compare(
        self, before: np.ndarray, after: np.ndarray, threshold: Threshold
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compares the probability of the class that was predicted before."""
        predicted = self.predict(before, threshold)
        rows = np.arange(len(predicted))
        change = np.abs(after[rows, predicted] - before[rows, predicted])
        return change, self.predict(after, threshold) != predicted

    def likelihoods(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Returns the probability of each row's class, [models, rows]."""
        return outputs[:, np.arange(len(labels)), labels]

    def _of_constant(
        self, index: int, counts: np.ndarray, names: Collection[str]
    ) -> dict[str, float]:
        # A row of each class, and its weight.
        outputs = np.tile(np.eye(self.outputs)[index], (self.outputs, 1))
        rows = Rows.of(np.arange(self.outputs), outputs)
        return measure_constant(self, rows, counts, names)
