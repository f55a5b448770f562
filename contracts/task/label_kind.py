"""What the rows of a task are labelled with; each kind is a class in its own file."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from contracts import metrics
from contracts.metrics import Metric, Rows, Threshold
from contracts.task.label_cells import canonical_label

Label = float | list[int]  # one class or score; or 0 or 1 for each of several labels


@dataclasses.dataclass(frozen=True)
class LabelKind(abc.ABC):
    """A kind of label: how it is read, predicted, measured and described.

    Attributes:
      names: The names of the classes or labels by index; empty for a score.
      noun: What one output of the model is.
      dtype: Type of the label in an Example, as NumPy's and TensorFlow's name.
      has_flags: Whether an Example has 0 or 1 for each name instead of one value.
      output: The output of the exported model that is evaluated.
      drift_test: The test that compares the labels of two splits; see
        `modules.data.profile`.
      sections: The parts of the report that only some kinds have: `classification`,
        `confusion`, `abstention`, `regression`.
      is_scaled: Whether outputs are in the units of the labels, which have a scale.
      fits_log_odds: Whether the bias of a new head starts at the log odds of each name.
      baseline: What a model without skill predicts, in words.
      baseline_model: That model, in words.
      better_metrics: Metrics that no constant model reaches a high value of.
      rare_class_setting: The setting that helps with rare classes.
      suggested_maximum: The metric that `task.decision` of a new project maximizes;
        empty for no decision.
      default_rule: When a name is predicted without a decision, as a sentence; empty
        for the most probable one.
      calibrated: What the calibration error compares, in words.
      problem_type: The name of the kind in Hugging Face's configuration.
    """

    names: tuple[str, ...]

    noun: ClassVar[Literal["class", "label", "score"]]
    dtype: ClassVar[Literal["int64", "float32"]] = "int64"
    has_flags: ClassVar[bool] = False
    output: ClassVar[str] = "probabilities"
    drift_test: ClassVar[Literal["classes", "labels", "histogram"]]
    sections: ClassVar[frozenset[str]]
    is_scaled: ClassVar[bool] = False
    fits_log_odds: ClassVar[bool] = False
    baseline: ClassVar[str]
    baseline_model: ClassVar[str] = ""
    better_metrics: ClassVar[str] = "accuracy or f1"
    rare_class_setting: ClassVar[str] = "trainer.class_weights"
    suggested_maximum: ClassVar[str] = ""
    default_rule: ClassVar[str] = ""
    calibrated: ClassVar[str] = ""
    problem_type: ClassVar[str]

    @property
    @abc.abstractmethod
    def metric_kind(self) -> metrics.Kind:
        """The kind in the table of metrics."""

    @property
    def decided_names(self) -> tuple[str, ...]:
        """The names that `task.decision` chooses a threshold for."""
        return ()

    @property
    def outputs(self) -> int:
        """Number of outputs of the model's head."""
        return len(self.names)

    @property
    def label_size(self) -> int:
        """Number of values in the label column of an Example."""
        return 1

    @property
    def low(self) -> float:
        """The lowest value in the label column of an Example."""
        return 0

    @property
    def high(self) -> float:
        """The highest value in the label column of an Example."""
        return len(self.names) - 1

    @property
    def feature_list(self) -> str:
        """The field of `tf.train.Feature` that holds labels."""
        return "int64_list" if self.dtype == "int64" else "float_list"

    @property
    def free_names(self) -> int:
        """Number of names that determine the label of a row."""
        return len(self.names) - 1

    @property
    def score_range(self) -> float:
        """The highest minus the lowest score; 0 for classes."""
        return 0.0

    @property
    def metric_table(self) -> Mapping[str, Metric]:
        """All metrics by name."""
        return metrics.for_kind(self.metric_kind, self.names)

    @property
    def deciding_metrics(self) -> list[str]:
        """The metrics that thresholds may name; higher is better, the default first."""
        return metrics.deciding(self.metric_kind, self.names)

    @property
    def class_metrics(self) -> tuple[str, ...]:
        """The metrics that each name has; see `metrics.class_metric`."""
        return metrics.class_metrics(self.metric_kind)

    # --- The labels of rows. ---

    @abc.abstractmethod
    def describe(self, label: Any) -> str:
        """Returns a label as text; NaN, of an output that is not finite, is `nan`."""

    @abc.abstractmethod
    def parse_description(self, text: str) -> Any:
        """Returns the label that `describe` has described."""

    def split_names(self, text: str) -> list[str]:
        """Returns the names in what `describe` has returned."""
        return [text]

    @abc.abstractmethod
    def describe_constant(self, label: Any, most: int) -> tuple[str, str]:
        """Describes the label of all rows, and labels that are missing.

        Args:
          label: The label.
          most: Number of missing names that are described.
        """

    @abc.abstractmethod
    def describe_purpose(self, texts: str) -> str:
        """Returns what a model predicts, after "to".

        Args:
          texts: What it reads, such as `pairs of texts`.
        """

    @abc.abstractmethod
    def describe_outputs(self) -> str:
        """Returns what a model predicts, after "predicts"."""

    def parse_cell(
        self,
        value: Any,
        separator: str,
        parse: Callable[[Any], float],
        labels: str | None,
    ) -> Label:
        """Returns the label of a cell.

        Args:
          value: A value of the label column.
          separator: Separates several labels in a text.
          parse: Returns the index of a name, or a score.
          labels: Setting `task.labels`.

        Raises:
          label_cells.CellError: The cell does not hold labels.
        """
        del separator, labels
        return parse(value)

    def allows(self, number: float) -> bool:
        """Returns whether a number may be in the label column of an Example."""
        return self.low <= number <= self.high  # NaN is not

    def is_value(self, text: str) -> bool:
        """Returns whether a canonical text is a label instead of a missing value."""
        return text in map(canonical_label, self.names)

    def read(self, values: Collection[Any]) -> Any:
        """Returns the label of an Example; None if the values are not allowed."""
        allowed = int if self.dtype == "int64" else int | float
        is_allowed = len(values) == self.label_size and all(
            isinstance(value, allowed) and self.allows(value) for value in values
        )
        if not is_allowed:
            return None
        return list(values) if self.label_size > 1 else next(iter(values))

    def from_table(self, values: np.ndarray) -> np.ndarray:
        """Returns labels from their values in Examples, [rows, label_size]."""
        return values[:, 0]

    def class_ids(self, label: Any) -> list[int]:
        """Returns the indices of the names that a row has; [0] for a score."""
        return [int(label)]

    # --- Counts of rows. ---

    @abc.abstractmethod
    def count(self, labels: np.ndarray) -> np.ndarray:
        """Returns the rows of each name, or of all scores, int64[outputs].

        Args:
          labels: Of rows, float64[rows] or float64[rows, outputs].
        """

    def histogram(self, labels: np.ndarray) -> dict[str, int]:
        """Returns the rows by name, or by the lower edge of a hundredth of the range.

        Args:
          labels: As for `count`.
        """
        return dict(zip(self.names, self.count(labels).tolist(), strict=True))

    def total(self, rows: int) -> int | None:
        """Returns the rows besides their counts by name; None if the counts add up."""
        del rows
        return None

    def slice_keys(self, label: Any, counted: Collection[float]) -> list[float]:
        """Returns the keys that a row of a slice is counted by.

        Args:
          label: The label, or a key of other counts, which are added.
          counted: The keys of earlier rows.
        """
        del counted
        return [label]

    def slice_counts(self, rows_by_key: Mapping[float, int]) -> np.ndarray:
        """Returns the rows of a slice as `count` does."""
        return np.array([rows_by_key.get(index, 0) for index in range(self.outputs)])

    # --- Models without skill. ---

    def constant_models(
        self, labels: np.ndarray, names: Collection[str]
    ) -> Iterator[tuple[list[str], dict[str, float]]]:
        """Computes metrics of models that predict the same for every row.

        Args:
          labels: Of at least one row, float64[rows] or float64[rows, outputs].
          names: The metrics.

        Yields:
          The predicted names, and the values of the metrics by name. No score is
          predicted: its metrics are correlations, which a constant does not have.
        """
        del labels, names
        yield from ()

    def majority_metrics(
        self, labels: np.ndarray, train_counts: Mapping[str, float], metric: str
    ) -> dict[str, float]:
        """Returns the metrics of `baseline`; empty without one.

        Args:
          labels: As for `constant_models`.
          train_counts: Rows of the training split by name.
          metric: The deciding metric.
        """
        del labels, train_counts, metric
        return {}

    @property
    def _constant_metrics(self) -> list[str]:
        # A constant prediction has no AUC, and an infinite loss.
        return [
            name
            for name, metric in self.metric_table.items()
            if not metric.needs_probabilities
        ]

    # --- Predictions. ---

    @abc.abstractmethod
    def predict(self, outputs: np.ndarray, threshold: Threshold = None) -> np.ndarray:
        """Returns predicted classes, labels or scores.

        Args:
          outputs: Probabilities float[rows, outputs], or scores float[rows].
          threshold: As in `Rows.of`.
        """

    @abc.abstractmethod
    def from_logits(self, logits: np.ndarray, temperature: float) -> np.ndarray:
        """Returns probabilities or scores.

        Args:
          logits: float[rows, outputs].
          temperature: What divides the logits.
        """

    def from_outputs(self, outputs: np.ndarray) -> np.ndarray:
        """Returns float[rows, outputs] in the shape of predictions' outputs."""
        return outputs

    def served_predictions(
        self, class_names: list[str], labels: list[Any]
    ) -> np.ndarray | None:
        """Returns the predictions that a server sent; None if it sent only outputs.

        Args:
          class_names: The class of each row.
          labels: The labels of each row, as 0 and 1.
        """
        del class_names, labels
        return None

    def fits(self, outputs: int, class_name: str | None, labels: Any) -> bool:
        """Returns whether a server's prediction is one of this kind and these names."""
        del class_name, labels
        return outputs == self.outputs

    @abc.abstractmethod
    def compare(
        self, before: np.ndarray, after: np.ndarray, threshold: Threshold
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns how far outputs have changed, and whether the prediction has.

        Args:
          before: Probabilities float[rows, outputs], or scores float[rows].
          after: In the same shape.
          threshold: As in `Rows.of`.

        Returns:
          float[rows] and bool[rows].
        """

    def likelihoods(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Returns the probability of each row's label, or its score, [models, rows].

        Args:
          outputs: [models, rows, outputs] or [models, rows].
          labels: int64[rows], int64[rows, outputs] or float64[rows].
        """
        del labels
        return outputs

    def are_different(self, predicted: np.ndarray, change: np.ndarray) -> np.ndarray:
        """Returns for which rows models predict differently, bool[rows].

        Args:
          predicted: float64[models, rows, label_size]; NaN is not finite.
          change: Largest change of `likelihoods`, float64[rows].
        """
        del change
        classes = np.nan_to_num(predicted, nan=-1)
        return (classes != classes[0]).any(axis=(0, 2))

    # --- One model a column: scikit-learn's models predict one label. ---

    def columns(self, labels: np.ndarray) -> list[np.ndarray]:
        """Returns the labels of each model."""
        return [labels]

    def join_columns(self, outputs: list[np.ndarray]) -> np.ndarray:
        """Returns outputs as `predict` reads them.

        Args:
          outputs: Of each model, probabilities float[rows, classes] or scores
            float[rows].
        """
        return outputs[0]

    # --- Weights in the training loss. ---

    @property
    def weight_groups(self) -> int:
        """Number of groups of labels that have a weight in the loss."""
        return self.outputs

    def group_ids(self, labels: np.ndarray) -> np.ndarray:
        """Returns the group of each label, int64[rows * label_size]."""
        return labels

    def spread_weights(self, by_name: list[float]) -> np.ndarray:
        """Returns the weight of each group from that of each name."""
        return np.array(by_name)

    def balance(self, rows: np.ndarray) -> np.ndarray:
        """Returns balanced weights of the groups.

        It is scikit-learn's "balanced", from counts that hosts can add up.

        Args:
          rows: Rows of each group, float64[weight_groups].
        """
        return rows.sum() / (len(rows) * rows)

    def count_names(self, rows: np.ndarray) -> np.ndarray:
        """Returns the rows of each name from those of each group."""
        return rows

    def name_weights(self, weights: list[float]) -> dict[str, float]:
        """Returns the weight of each name from those of the groups."""
        return dict(zip(self.names, weights, strict=True))


def is_nan(label: Any) -> bool:
    """Returns whether a label is of an output that is not finite."""
    return bool(np.isnan(label).any())


def describe_number(number: float) -> str:
    """Returns a number with its digits in float32."""
    return f"{number:.9g}"


def measure_constant(
    kind: LabelKind, rows: Rows, weights: np.ndarray, names: Collection[str]
) -> dict[str, float]:
    """Returns metrics of rows with weights, by name."""
    sample = metrics.Sample(rows, np.asarray(weights, float)[:, np.newaxis])
    table = kind.metric_table
    return {name: float(table[name].values(sample)[0]) for name in names}
