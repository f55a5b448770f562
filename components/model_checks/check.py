"""What a check is, and what it can read: a model and data.

A check runs in a process of its own, without TensorFlow. Its model and data call the
component, whose model runs in the clean process that serves models.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from contracts.metrics import Threshold
from contracts.records.checks import CheckResult
from contracts.records.evaluation import Evaluation, Slice
from contracts.settings.checks import CheckSettings
from contracts.task.definition import TaskConfig

if TYPE_CHECKING:
    from modules.data.judgment import Finding
    from modules.data.slice_sizes import Counts
    from modules.evaluation.prediction_files import RecordedPredictions

# The texts of a row in the order of `task.text_columns`.
Texts = tuple[str, ...]


class NotApplicable(Exception):  # noqa: N818 (it is not an error)
    """A check does not apply to this model or these data; its text says why."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a split, or a sample of them.

    Attributes:
      split: The split.
      most: The number of rows that were requested; None is all.
      ids: int64[rows]; see `NO_ID`.
      labels: float64[rows], or [rows, classes] of several labels.
      texts: The texts of each row. Bytes that are not UTF-8 are surrogates. The token
        ids with spaces between them, if the task is tokenized.
      slices: The value of each row by the features that evaluations are sliced by.
      weights: float64[rows]; None without `task.weight_column`.
    """

    split: str
    most: int | None
    ids: np.ndarray
    labels: np.ndarray
    texts: list[Texts]
    slices: dict[str, list[str]]
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)


class Prediction(NamedTuple):
    """The prediction for a row.

    Attributes:
      label: Name of the predicted class, names of the labels, or the score.
      probabilities: By class or label; empty for a score.
    """

    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """The highest probability; NaN for a score."""
        return max(self.probabilities.values(), default=np.nan)


# Calls the component: the name of a method of `host.Host`, and its arguments.
Call = Callable[..., Any]


class Model:
    """An exported model in the clean process that serves models.

    Args:
      name: `candidate`, `champion` or a version.
      task: The task.
      threshold: The exported threshold, as in `metrics.Rows.of`.
      call: Calls the component.
    """

    def __init__(
        self, name: str, task: TaskConfig, threshold: Threshold, call: Call
    ) -> None:
        self.name = name
        self.task = task
        self.threshold = threshold
        self._call = call

    def predict(self, texts: Sequence[str | Sequence[str]]) -> list[Prediction]:
        """Returns the predictions of texts, or of pairs in the order of the columns."""
        if not texts:
            return []
        outputs = self.outputs(texts)
        kind = self.task.label_kind
        names = kind.names
        return [
            Prediction(
                kind.describe(label),
                dict(zip(names, np.atleast_1d(row).tolist(), strict=False)),
            )
            for label, row in zip(
                kind.predict(outputs, self.threshold), outputs, strict=True
            )
        ]

    def outputs(self, rows: Rows | Sequence[str | Sequence[str]]) -> np.ndarray:
        """Returns probabilities float64[rows, classes], or scores float64[rows].

        Args:
          rows: Texts, or rows of the data, which are sent as serialized Examples.

        Raises:
          RuntimeError: The model fails, or an output is not finite.
        """
        if isinstance(rows, Rows):
            values = self._call("outputs_of_rows", self.name, rows.split, rows.most)
        else:
            texts = [(row,) if isinstance(row, str) else tuple(row) for row in rows]
            values = self._call("outputs", self.name, texts)
        return np.asarray(values, float)

    def recorded(self, split: str) -> RecordedPredictions:
        """Returns the candidate's predictions of a labelled split, from training."""
        return self._call("recorded", split)

    def tokens(self, texts: Sequence[Texts]) -> tuple[np.ndarray, np.ndarray]:
        """Returns how many tokens of each text the model reads, and how many are cut.

        Returns:
          Both int64[rows, columns].
        """
        read, cut = self._call("tokens", self.name, list(texts))
        return np.asarray(read), np.asarray(cut)


@dataclasses.dataclass(frozen=True)
class OlderVersion:
    """An older pushed version.

    Attributes:
      version: Its number.
      pushed: When it was pushed, in seconds since 1970; None if that is unknown.
      evaluation: Its evaluation, and the data that it was trained on; None if that is
        not recorded.
      problem: Why it cannot be compared with the model; empty if it can.
      model: The model; None if it has a problem.
    """

    version: str
    pushed: float | None
    evaluation: Evaluation | None
    problem: str
    model: Model | None


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known before a check runs.

    Attributes:
      task: The task.
      split: The split that decides.
      significance: `evaluator.significance`.
      metrics: The candidate's metrics on that split.
      slices: The metrics of its slices.
      not_compared: Why the champion is not compared with the model; empty if it is, or
        without one.
      thresholds: The exported threshold of each model by its name. `champion` is
        missing without one.
      splitting: The `splitting` of the data's card; None if their splits were not made
        here, or if they are a span.
    """

    task: TaskConfig
    split: str
    significance: float
    metrics: dict[str, float]
    slices: list[Slice]
    not_compared: str
    thresholds: dict[str, Threshold]
    splitting: dict[str, Any] | None


class Data:
    """The data of a run, its champion and its older versions.

    Args:
      facts: What is known before.
      call: Calls the component.
    """

    def __init__(self, facts: Facts, call: Call) -> None:
        self.facts = facts
        self._call = call

    @property
    def task(self) -> TaskConfig:
        """The task."""
        return self.facts.task

    @property
    def split(self) -> str:
        """The split that decides."""
        return self.facts.split

    @functools.cached_property
    def _rows(self) -> dict[tuple[str, int | None], Rows]:
        return {}

    def rows(self, split: str | None = None, most: int | None = None) -> Rows:
        """Returns the rows of a split.

        Args:
          split: The split; None is the one that decides.
          most: Most rows. Of more, a sample is returned, which is the same for any
            order of the rows. None returns all.
        """
        key = (split or self.split, most)
        if key not in self._rows:
            self._rows[key] = self._call("rows", *key)
        return self._rows[key]

    @property
    def champion(self) -> Model | None:
        """The model in production; None without one, or if it has another task."""
        if "champion" not in self.facts.thresholds:
            return None
        threshold = self.facts.thresholds["champion"]
        return Model("champion", self.task, threshold, self._call)

    def older_versions(self, most: int) -> Iterator[OlderVersion]:
        """Yields the pushed versions other than the candidate, the newest first."""
        for version, threshold in self._call("older_versions", most):
            model = None
            if not version.problem:
                model = Model(version.version, self.task, threshold, self._call)
            yield dataclasses.replace(version, model=model)

    def time_in_turn(
        self, runs: Mapping[str, tuple[Model, Sequence[Texts]]]
    ) -> dict[str, np.ndarray]:
        """Times requests with one row, in turn, so that all have the same conditions.

        Args:
          runs: By any name, a model and as many rows for each.

        Returns:
          The seconds of each row by name, float64[rows].
        """
        sent = {key: (model.name, list(rows)) for key, (model, rows) in runs.items()}
        seconds = self._call("time_in_turn", sent)
        return {key: np.asarray(values) for key, values in seconds.items()}


class Check(abc.ABC):
    """A check of a model; its class is in a file of its own.

    The docstring of `Settings` describes the section of the recipe. The name of a check
    of this package is the name of its file.

    Attributes:
      Settings: The section `checks.NAME`.
      title: The check's name for people.
      runs_after_push: Whether it runs after the push, so that it decides nothing.
    """

    Settings: ClassVar[type[CheckSettings]] = CheckSettings
    title: ClassVar[str]
    runs_after_push: ClassVar[bool] = False

    @abc.abstractmethod
    def run(self, model: Model, data: Data, settings: Any) -> CheckResult:
        """Checks a model.

        It imports what takes long to import itself: a recipe reads the settings.

        Args:
          model: The candidate.
          data: The data, the champion and the older versions.
          settings: The check's section, of the class `Settings`.

        Raises:
          NotApplicable: The check does not apply.
        """

    def validate(  # noqa: B027 (most checks have nothing to refuse)
        self, settings: Any, task: TaskConfig, slice_columns: Sequence[str]
    ) -> None:
        """Refuses settings that do not fit the task, before a run.

        Raises:
          SettingError: A setting does not fit; its name is relative to the section.
        """

    def texts_to_find(self, settings: Any) -> list[Texts]:
        """Returns texts that DataGate looks up in the rows of `train`."""
        return []

    def judge_data(
        self,
        settings: Any,
        task: TaskConfig,
        split: str,
        slices: Mapping[str, Counts],
        in_train: list[Texts],
    ) -> Iterator[Finding]:
        """Yields why the data do not suffice for this check, before training.

        Args:
          settings: The check's section.
          task: The task.
          split: The split that decides.
          slices: Its rows by column of `data.slice_columns`.
          in_train: The texts of `texts_to_find` that are in `train`.
        """
        yield from ()
