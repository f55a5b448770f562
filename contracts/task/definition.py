"""The task definition: the columns, their meaning and the deciding metric."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from contracts import metrics
from contracts.errors import SettingError
from contracts.section import Settings
from contracts.task import label_cells
from contracts.task.classes import Classes
from contracts.task.decision import MICRO_F1, ONE_LABEL, DecisionConfig
from contracts.task.label_cells import canonical_label
from contracts.task.label_kind import LabelKind
from contracts.task.score import Score
from contracts.task.several_labels import SeveralLabels

# The features of the Model Garden's `create_finetuning_data.py`.
TOKENIZED_FEATURES = ("input_ids", "input_mask", "segment_ids")
TOKENIZED_LABEL = "label_ids"
TOKENIZED_ID = "example_id"

# Examples hold scores as float32.
LARGEST_SCORE = 3.4e38

NO_ID = -1  # of an Example without an id

# The features that evaluations are sliced by; see `TaskConfig.slice_features`.
PAIR_LENGTH = "pair_length"
WORD_OVERLAP = "word_overlap"
SENTENCE_LENGTH = "sentence_length"
TOKEN_LENGTH = "token_length"

# The fields of a task that neither the Examples nor the weights depend on.
NOT_TRAINED = {"decision"}

# The splits that every training needs.
TRAIN_SPLIT = "train"
EVAL_SPLIT = "eval"

# Wang et al. 2018, "GLUE", table 1; columns and classes as TFDS has them.
GLUE: dict[str, dict[str, Any]] = {
    "cola": {
        "text_columns": ["sentence"],
        "classes": ["unacceptable", "acceptable"],
        "metric": "matthews",
    },
    "sst2": {"text_columns": ["sentence"], "classes": ["negative", "positive"]},
    "mrpc": {"classes": ["not_equivalent", "equivalent"], "metric": "f1"},
    "stsb": {"label_range": [0.0, 5.0]},
    "qqp": {
        "text_columns": ["question1", "question2"],
        "classes": ["not_duplicate", "duplicate"],
        "metric": "f1",
    },
    "mnli": {
        "text_columns": ["premise", "hypothesis"],
        "classes": ["entailment", "neutral", "contradiction"],
    },
    "qnli": {
        "text_columns": ["question", "sentence"],
        "classes": ["entailment", "not_entailment"],
    },
    "rte": {"classes": ["entailment", "not_entailment"]},
    "wnli": {"classes": ["not_entailment", "entailment"]},
}


# TensorFlow accepts no other names for the inputs of a SavedModel's signature.
INPUT_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.-]*")


def input_name(column: str) -> str:
    """Returns a column's name as a valid name for the input of a SavedModel."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", column).strip("_")
    return name if INPUT_NAME.fullmatch(name) else f"text_{name}".rstrip("_-")


def find_kind(
    kind: str | None,
    classes: Sequence[str] | None,
    label_range: Sequence[float] | None,
) -> LabelKind:
    """Returns the label kind that the settings of a task select."""
    names = None if classes is None else tuple(classes)
    return _make_kind(kind, names, tuple(label_range or (0.0, 1.0)))


def find_described_kind(described: Mapping[str, Any]) -> LabelKind:
    """Returns the label kind of a model, by its description."""
    keys = ("kind", "classes", "label_range")
    return find_kind(*(described.get(key) for key in keys))


@functools.lru_cache(maxsize=64)
def _make_kind(
    kind: str | None, names: tuple[str, ...] | None, label_range: tuple[float, float]
) -> LabelKind:
    if kind == "multilabel":
        return SeveralLabels(names or ())
    if names is not None:
        return Classes(names)
    return Score((), label_range=label_range)


class TaskConfig(Settings):
    """The columns of the examples and what is predicted from them.

    Attributes:
      name: A GLUE task, which sets the columns, the classes, the metric and the layout
        of the files.
      input: `text`, or `tokenized` for Examples with `input_ids`, `input_mask` and
        `segment_ids`, as the Model Garden's `create_finetuning_data.py` writes them.
      text_columns: The string column, or the two of a pair in the order of the
        segments. They are the inputs of the exported model, even for a `tokenized`
        task.
      kind: `multilabel`: a text has any number of the classes. None: a regression if
        there is a `label_range`, or else one class.
      label_column: The column with the index of the class (int64), or with the score
        of a regression (float32). With `multilabel`, Examples have a 1 in it for each
        label of the row and 0 for the others (int64[classes]).
      id_column: The int64 column that identifies a row.
      weight_column: The float32 column with the weight of a row in the training loss, 0
        or more. Splits other than `train` may lack it. None weighs all rows equally.
      classes: Class names; the index is the label. Of two classes, the second is the
        positive one. None for a regression. With `multilabel`, they are the labels.
      label_separator: With `multilabel`, files have the labels of a row in
        `label_column`: as a list, or as a text with this separator, such as `|`, a
        blank, a line break or fastText's `__label__`; empty means no label. None: files
        have a column of 0 and 1 for each label, with its name. Predictions and records
        join labels by `|`.
      labels: How files, except TFRecords, write a class. `name`: as its name; `1.0`,
        `01` and `1` are one name. `index`: as its index, from 0. None: as its index if
        every label of every split is one, or else as its name.
      label_range: Lowest and highest score of a regression; None for classes.
      metric: The metric that models are compared by; higher is better. With classes, it
        may be that of one class: `precision/CLASS`, `recall/CLASS` or `f1/CLASS`. The
        default of `multilabel` is `micro_f1`.
      decision: What the threshold of the positive class of two, or of each of several
        labels, is chosen by, such as
        `{maximize: f1}`, `{costs: {false_positive: 1, false_negative: 5}}` or
        `{min_precision: 0.9}`. It is chosen on `eval` after the training. Another
        decision exports the model again and trains nothing. None predicts the most
        probable class.
    """

    name: str | None = None
    input: Literal["text", "tokenized"] = "text"
    text_columns: list[str] = Field(
        default=["sentence1", "sentence2"], min_length=1, max_length=2
    )
    kind: Literal["multilabel"] | None = None
    label_column: str = "label"
    id_column: str = "idx"
    weight_column: str | None = None
    classes: list[str] | None = Field(
        default=["not_equivalent", "equivalent"], min_length=2
    )
    labels: Literal["name", "index"] | None = None
    label_separator: str | None = Field(default=None, min_length=1)
    label_range: list[float] | None = Field(default=None, min_length=2, max_length=2)
    metric: str = "accuracy"
    decision: DecisionConfig | None = None

    @property
    def tfds_source(self) -> str | None:
        """TFDS source of a GLUE task; None for any other task."""
        return f"tfds:glue/{self.name}" if self.name else None

    @property
    def label_kind(self) -> LabelKind:
        """What rows are labelled with: a class, several labels, or a score."""
        return find_kind(self.kind, self.classes, self.label_range)

    @property
    def is_tokenized(self) -> bool:
        """Whether the examples hold token ids instead of text."""
        return self.input == "tokenized"

    @property
    def has_single_text(self) -> bool:
        """Whether an example is one text, and not a pair or token ids."""
        return len(self.text_columns) == 1 and not self.is_tokenized

    @property
    def outputs(self) -> int:
        """Number of outputs of the model's head."""
        return self.label_kind.outputs

    @property
    def label_size(self) -> int:
        """Number of values in the label column of an Example."""
        return self.label_kind.label_size

    @property
    def columns(self) -> list[str]:
        """The names of the text columns, the label, the id, and the weight if any."""
        weight = [] if self.weight_column is None else [self.weight_column]
        return [*self.text_columns, self.label_column, self.id_column, *weight]

    @property
    def metric_table(self) -> Mapping[str, metrics.Metric]:
        """All metrics of the task by name."""
        return self.label_kind.metric_table

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that `metric` and thresholds may name; higher is better."""
        return tuple(self.label_kind.deciding_metrics)

    @property
    def has_label_columns(self) -> bool:
        """Whether files have a column of 0 and 1 for each of several labels."""
        return self.kind == "multilabel" and self.label_separator is None

    @property
    def label_columns(self) -> list[str]:
        """The columns of files that have the labels of a row."""
        return (
            [*(self.classes or ())] if self.has_label_columns else [self.label_column]
        )

    @property
    def separator(self) -> str:
        """The separator of several labels in the cells of files."""
        return self.label_separator or label_cells.SEPARATOR

    def own_name(self, name: str) -> str:
        """Returns a name for a column of the pipeline that the task's columns lack.

        Args:
          name: The name; `model_` is put before it as often as the task has it.
        """
        while name in self.columns:
            name = f"model_{name}"
        return name

    @property
    def slice_features(self) -> list[str]:
        """The features of the model that its evaluation is sliced by.

        TFMA would read a label from a slice feature of its name.
        """
        if self.is_tokenized:
            names = [TOKEN_LENGTH]
        elif self.has_single_text:
            names = [SENTENCE_LENGTH]
        else:
            names = [PAIR_LENGTH, WORD_OVERLAP]
        return [self.own_name(name) for name in names]

    def describe_label(self, label: Any) -> str:
        """Returns the name of a class by its index, or a score with its digits.

        Args:
          label: An index, a score, or 0 or 1 for each of several labels, whose names
            `label_cells.join` joins. The class of an output that is not finite is NaN.
        """
        return self.label_kind.describe(label)

    @model_validator(mode="before")
    @classmethod
    def _fill_in_defaults(cls, values: Any) -> Any:
        if isinstance(values, str):
            values = {"name": values}
        if not isinstance(values, dict):
            return values
        values = dict(values)
        name = values.get("name")
        if name is not None and name not in GLUE:
            raise SettingError("name", f"{name!r}, not a GLUE task", ", ".join(GLUE))
        if name is not None:
            values = {**GLUE[name], **values}
        if values.get("label_range") is not None:
            values.setdefault("classes", None)
            values.setdefault("metric", metrics.deciding("regression")[0])
        if values.get("kind") == "multilabel":
            values.setdefault("metric", metrics.deciding("multilabel")[0])
        if values.get("input") == "tokenized":
            values.setdefault("label_column", TOKENIZED_LABEL)
            values.setdefault("id_column", TOKENIZED_ID)
        return values

    @model_validator(mode="after")
    def _check_names(self) -> TaskConfig:
        columns = (self.columns, "columns")
        for names, what in (columns, (self.classes or [], "classes")):
            if len(set(names)) < len(names) or not all(names):
                raise SettingError(
                    got=f"the {what} {names} must be distinct and not empty"
                )
        return self

    @model_validator(mode="after")
    def _check_class_names(self) -> TaskConfig:
        by_label: dict[str, str] = {}
        for name in self.classes or []:
            other = by_label.setdefault(canonical_label(name), name)
            if other != name:
                raise SettingError(
                    "classes",
                    f"{other!r} and {name!r} are spellings of one label",
                    advice="keep one of them",
                )
        for index, name in enumerate(self.classes or []):
            other = by_label.get(str(index), name)
            if self.labels is None and other != name and not self.has_label_columns:
                raise SettingError(
                    "classes",
                    f"the class {other!r} is the index of the class {name!r}, so a "
                    f"label {other} is ambiguous",
                    advice="set task.labels to name or index, rename the class, or "
                    "give it that index",
                )
        return self

    @model_validator(mode="after")
    def _check_multilabel(self) -> TaskConfig:
        if self.kind != "multilabel":
            if self.label_separator is not None:
                raise SettingError(
                    "label_separator",
                    f"{self.label_separator!r}, but a row has one label",
                    advice="set task.kind to multilabel, or leave it out",
                )
            return self
        is_named = "classes" in self.model_fields_set and self.name is None
        if self.classes is None or not is_named:
            raise SettingError(
                "kind",
                "multilabel, which takes the names of the labels as classes, and "
                "neither a label_range nor the name of a GLUE task",
            )
        for name in self.classes:
            if name != name.strip():
                raise SettingError(
                    "classes",
                    f"the label {name!r} has blanks around it",
                    advice="rename the label",
                )
            # `|` may be in the name of a label that files have in lists.
            if self.separator != label_cells.SEPARATOR and self.separator in name:
                raise SettingError(
                    "label_separator",
                    f"{self.separator!r}, but the label {name!r} has it, too",
                    advice="set it to what no label has in it, or rename the label",
                )
        if not self.has_label_columns:
            return self
        if self.labels == "index":
            raise SettingError(
                "labels",
                "index, but files have a column for each label",
                advice="leave it out, or set label_separator for a column of indices",
            )
        if shared := set(self.classes) & set(self.columns):
            name = min(shared)
            settings = ("label_column", "id_column", "weight_column")
            setting = next(
                (key for key in settings if getattr(self, key) == name), "text_columns"
            )
            raise SettingError(
                "classes",
                f"the label {name!r} is also the name of another column of the task",
                advice=f"set task.{setting} to another name, or rename the label",
            )
        return self

    @model_validator(mode="after")
    def _check_kind(self) -> TaskConfig:
        if (self.classes is None) == (self.label_range is None):
            given = "both classes" if self.classes else "neither classes"
            joint = "and" if self.classes else "nor"
            raise SettingError(
                "classes",
                f"the task has {given} {joint} a label_range",
                advice="give one of them",
            )
        if self.label_range and not self.label_range[0] < self.label_range[1]:
            raise SettingError(
                "label_range",
                f"{self.label_range}, whose second score is not higher",
                "[LOWEST, HIGHEST]",
            )
        if any(abs(score) > LARGEST_SCORE for score in self.label_range or ()):
            raise SettingError(
                "label_range",
                str(self.label_range),
                f"numbers from -{LARGEST_SCORE} to {LARGEST_SCORE}",
            )
        if self.metric not in self.metrics:
            raise SettingError(
                "metric", repr(self.metric), metrics.shorten(self.metrics)
            )
        return self

    @model_validator(mode="after")
    def _check_decision(self) -> TaskConfig:
        if self.decision is None:
            return self
        kind = self.label_kind
        if not kind.decided_names:
            count = len(self.classes) if self.classes else "a score and no"
            raise SettingError(
                "decision",
                f"it chooses between two classes, but the task has {count} classes",
                advice="leave it out; with task.kind multilabel, it chooses for each "
                "label",
            )
        classes = ONE_LABEL if kind.has_flags else kind.names
        allowed = [
            name
            for name, metric in metrics.for_kind("binary", classes).items()
            if metric.higher_is_better
            and not metric.needs_probabilities
            and not name.startswith(("precision", "recall"))
            # One setting decides on all labels.
            and not (kind.has_flags and "/" in name)
        ]
        if kind.has_flags:
            allowed.insert(0, MICRO_F1)
        if self.decision.maximize not in (None, *allowed):
            raise SettingError(
                "decision.maximize",
                repr(self.decision.maximize),
                metrics.shorten(allowed),
            )
        return self
