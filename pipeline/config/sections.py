"""Sections of the recipe that the pipeline itself reads."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
)

from contracts.section import Settings
from contracts.settings.evaluator import LinearModelMode
from contracts.settings.words import ChangedByWords, GroupWords, find_problem
from contracts.task.definition import TRAIN_SPLIT
from ingest.examples.splits import SPLITS

PACKAGE_PREFIX = "package:"  # of sources that are not paths


class EncoderConfig(Settings):
    """Where the pre-trained encoder comes from.

    Attributes:
      source: A directory (local or `gs://`), `package:NAME/PATH` for a directory in an
        installed package, or the handle of a SavedModel on TF Hub or Kaggle. It holds
        a Model Garden checkpoint, a Hugging Face folder or a SavedModel.
      sha256: Expected SHA-256 over the names and contents of all files that are read
        from the source: configuration or graph, vocabulary, tokenizer settings and
        weights. It is checked before any file is used; the error message has the
        actual hash. None checks nothing.
    """

    source: str
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class EvaluatorConfig(Settings):
    """The quality that a model must reach before it is pushed.

    Attributes:
      split: Split that the thresholds apply to; not `train`. None takes `test`. If the
        data lack it, `eval` is halved into `eval` and `test`, or evaluated as a whole
        if its halves are too small for `data_gate.max_interval`. The rows of `eval`
        also choose the checkpoint, so that a model seems a little better on them.
      thresholds: Lowest value by metric, in the range of the metric.
      slice_thresholds: The same in each slice by a column of `data.slice_columns`, such
        as `{region: {accuracy: 0.7}}`.
      min_slice_rows: A threshold applies to slices with this many rows that its metric
        counts, because fewer could refuse any model. So does the comparison with a
        linear model.
      max_regression: How far below the champion each metric may be. On n rows an
        accuracy p has a standard error of sqrt(p (1 - p) / n): a smaller drop is noise.
      significance: A model is also refused if it is worse than the champion in
        `task.metric`, on all rows or in a slice, and a test on the same rows has a
        p-value below this. 0 turns the test off. A bootstrap, for metrics other than
        accuracy, has no p-value below 0.002.
      linear_model: Whether each run also trains a linear model on words. `refuse`: a
        model is refused if it is worse than that in `task.metric` on all rows, or in a
        slice with `min_slice_rows` rows, by the test of `significance`. `report` only
        reports both, and `ignore` trains none.
      group_words: Words for groups of people that are swapped in evaluated texts, by
        the name of a list, such as `{age: [[young, old], [boy, man]]}`: a column has
        the words for a group, a row those that replace each other. None takes the
        English lists of `components/serving_check/group_words.json`, `{}` swaps none.
      max_changed_by_words: The share of the rows with such a word whose prediction may
        change. More is a warning, if the 95 % interval of the share is above this.
      changed_by_words: `refuse` refuses the model instead of a warning.
      incompatible_champion: What happens if the champion, the model that was pushed
        last, has other text columns, classes or range. `ignore` applies only the
        thresholds and reports it in the verdict; `refuse` stops the run before
        training.
      older_versions: How many older pushed versions each run measures on the rows of
        `split`, the newest first, to show how the model ages. They decide nothing. 0
        measures none.
      older_version_rows: Most rows of `split` to predict with each of them; of more, a
        sample is predicted.
    """

    split: str | None = None
    thresholds: dict[str, float] = Field(default_factory=dict)
    slice_thresholds: dict[str, dict[str, float]] = Field(default_factory=dict)
    min_slice_rows: PositiveInt = 30
    max_regression: dict[str, float] = Field(default_factory=dict)
    significance: float = Field(default=0.05, ge=0, lt=1)
    linear_model: LinearModelMode = "refuse"
    group_words: GroupWords | None = None
    max_changed_by_words: float = Field(default=0.05, ge=0, le=1)
    changed_by_words: ChangedByWords = "warn"
    incompatible_champion: Literal["ignore", "refuse"] = "ignore"
    older_versions: NonNegativeInt = 3
    older_version_rows: PositiveInt = 1000

    @field_validator("split")
    @classmethod
    def _check_split(cls, split: str | None) -> str | None:
        allowed = [name for name in SPLITS if name != TRAIN_SPLIT]
        if split is not None and split not in allowed:
            raise ValueError(f"allowed are {', '.join(allowed)}")
        return split

    @field_validator("group_words")
    @classmethod
    def _check_group_words(cls, lists: GroupWords | None) -> GroupWords | None:
        if lists is not None and (problem := find_problem(lists)):
            raise ValueError(problem)
        return lists


class ServingConfig(Settings):
    """The exported model, and its check in a separate process.

    Attributes:
      precision: Type of the exported weights and of their matrix products. `bfloat16`
        halves the model's size and loses some quality. The evaluated model is the
        exported one.
      tf_serving_version: Release of TensorFlow Serving whose tensorflow-text must have
        every op of the model: 2.16 to 2.19 have tensorflow-text 2.12, 2.20 has 2.20.
      rows: Rows to predict as text, drawn from the whole split. Up to four times as
        many are predicted as Examples, and those of a pair again with each text column
        of another row, for the report.
      examples: How many of these rows are pushed with the model, as examples on the
        page of `serve`. 0 pushes none: set it if clients of the model must not see the
        data. It applies to the next version; pushed versions keep their examples.
      max_memory_bytes: Maximum memory of the process.
      timeout_seconds: Maximum time to load the model and to predict. The champion,
        which `max_latency_ratio` compares, has as much again. So have the rows with
        swapped words of `evaluator.group_words`, and those with texts of other rows or
        with an empty column; if they take longer, only the report lacks them, unless
        `evaluator.changed_by_words` is `refuse`.
      max_latency_ratio: Refuses a model whose median time of a request with one row,
        divided by that of the champion, exceeds it, such as 1.5. Both are loaded in one
        process and timed in turn. None does not compare them.
    """

    precision: Literal["float32", "bfloat16"] = "float32"
    tf_serving_version: Literal["2.16", "2.17", "2.18", "2.19", "2.20"] = "2.16"
    rows: PositiveInt = 64
    examples: NonNegativeInt = 6
    max_memory_bytes: PositiveInt = 8 << 30
    timeout_seconds: PositiveInt = 600
    max_latency_ratio: PositiveFloat | None = None

    @field_validator("tf_serving_version", mode="before")
    @classmethod
    def _read_number(cls, version: Any) -> Any:
        # Python callers may pass a number; YAML keeps the text of `2.20`.
        return f"{version:.2f}" if isinstance(version, float) else version
