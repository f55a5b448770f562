"""The report of ServingCheck, and what swapped words change."""

from __future__ import annotations

import pydantic

from contracts.errors import named
from contracts.records import Record, RecordFile

# Keys of the latency with and without a text column.
ALL_TEXTS = "all texts"
WITHOUT_COLUMN = "without {}"


class SwappedRow(Record):
    """A row, and its texts with swapped words.

    Attributes:
      id: Its id.
      texts: Its texts in the order of the text columns.
      swapped: The texts with swapped words.
      prediction: Name of the predicted class, names of the labels, or the score.
      swapped_prediction: That of the texts with swapped words.
      probability: Probability of the class that is predicted for the row; None for a
        regression and for several labels.
      swapped_probability: Its probability for the texts with swapped words, or None.
    """

    id: int
    texts: list[str]
    swapped: list[str]
    prediction: str
    swapped_prediction: str
    probability: float | None = None
    swapped_probability: float | None = None


class WordChanges(Record):
    """How much predictions change if words for groups of people are swapped.

    Attributes:
      name: The list of `evaluator.group_words`.
      rows: The rows with a word of the list.
      versions: Their versions, one for each other group.
      changed: Rows with a version that has another prediction: another class, or a
        score that differs by more than `task.score.CHANGED_SHARE` of the range.
      interval: The 95 % interval of their share (Clopper and Pearson 1934).
      mean_change: Mean absolute change, over the versions, of the probability of the
        class that is predicted for the row; in a regression, of the score.
      largest: The rows that change most.
    """

    name: str
    rows: int
    versions: int
    changed: int
    interval: tuple[float, float]
    mean_change: float
    largest: list[SwappedRow] = []

    @property
    def sentence(self) -> str:
        """The change in a sentence."""
        share, low, high = (
            f"{100 * value:.1f} %"
            for value in (self.changed / self.rows, *self.interval)
        )
        return (
            f"the prediction changes in {self.changed:,} of {self.rows:,} rows "
            f"({share}, 95 % interval {low} to {high}) if words of "
            f"evaluator.group_words.{self.name} are swapped"
        )

    def find_excess(self, most: float) -> str | None:
        """Returns why more rows change than noise explains; None if they may not.

        Args:
          most: `evaluator.max_changed_by_words`.
        """
        if self.interval[0] <= most:
            return None
        return named(
            f"{self.sentence}, but evaluator.max_changed_by_words allows "
            f"{100 * most:g} %; the report has the rows that change most: add rows to "
            "train whose label does not depend on these words, or raise the setting if "
            "it may",
            "E-changed-by-words",
        )


class ServingReport(RecordFile, frozen=True):
    """The result of ServingCheck.

    Attributes:
      reasons: Why the model is not blessed; empty if it is blessed.
      rows: Number of compared rows.
      max_skew: Largest difference from the expected values by signature, relative for
        values above 1; None if nothing was compared.
      latency_ms: `p50` and `p99` of a request with one row, in milliseconds; None if
        the model failed before.
      rows_per_second: Throughput of one request with all rows that are sent as text;
        None if the model failed before.
      latency_compared_ms: Median of a request with one row, in milliseconds, of `model`
        and `champion`, which were timed in turn; empty if they were not.
      latency_of_columns_ms: Median of a request with one row of a pair, in
        milliseconds, by `ALL_TEXTS` and, for each column, by `WITHOUT_COLUMN`, in turn;
        empty if it was not timed.
      not_compared: Why the champion was not timed, if there is one and a limit; else
        None.
      group_words: What swapped words change, by list; empty if nothing was swapped, or
        if the model failed before.
      not_swapped: Why no words were swapped; None if they were.
      warnings: What the model is not refused for, but should be known.
      load_seconds: Time to load the model; None if the model failed before.
      peak_memory_bytes: Highest resident memory, TensorFlow included.
      tf_serving_version: The TensorFlow Serving version of the request.
      text_version: The tensorflow-text version in that TensorFlow Serving.
    """

    FILE = "serving_check.json"

    reasons: list[str]
    rows: int
    max_skew: dict[str, float | None]
    latency_ms: dict[str, float] | None
    rows_per_second: float | None
    latency_compared_ms: dict[str, float] = {}
    latency_of_columns_ms: dict[str, float] = {}
    not_compared: str | None = None
    group_words: list[WordChanges] = []
    not_swapped: str | None = None
    warnings: list[str] = []
    load_seconds: float | None
    peak_memory_bytes: int
    tf_serving_version: str
    text_version: str

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def blessed(self) -> bool:
        """Whether the model may be served."""
        return not self.reasons
