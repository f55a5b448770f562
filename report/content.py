"""The content of a report, as in `report.json`."""

from __future__ import annotations

import os
from typing import Any, Literal

from contracts import wording
from contracts.commits import Commits
from contracts.packing import Packing
from contracts.records import Record, RecordFile
from contracts.records.checks import CheckResult
from contracts.records.data import DataVerdict
from contracts.records.evaluation import (
    EXAMPLE_COUNT,
    MetricVerdict,
    Slice,
    Verdict,
)
from contracts.records.probabilities import (
    CalibrationBin,
    Decision,
    LabelDecisions,
    TemperatureScaling,
)
from contracts.records.serving import ServingReport
from contracts.run_states import DATA_REFUSED, Outcome
from contracts.settings.evaluator import describe_selection
from contracts.task import abstention
from contracts.task.definition import EVAL_SPLIT, TaskConfig
from modules.training.trials import Trial
from report import formatting

# Further files of a report. If it failed, the last one has the missing parts, then the
# traceback.
PAGE_FILE = "report.html"
MODEL_PICTURE = "model.svg"
ERROR_FILE = "report_error.txt"


class Curve(Record):
    """The coordinates of the points of a curve."""

    x: list[float]
    y: list[float]


class SeedTraining(Record):
    """The training from one seed.

    Attributes:
      losses: The training loss by step.
      evaluations: Each metric of the evaluation split by step.
      best_step: The step of the best evaluation.
      stopped: Why training ended before its last step, or None.
    """

    seed: int
    losses: Curve
    evaluations: dict[str, Curve]
    steps: int
    best_step: int
    stopped: str | None


class Training(Record):
    """The training.

    Attributes:
      metric: The metric that models are selected by.
      best_seed: The seed of the exported model.
      seeds: The training from each seed.
      learning_rates: The learning rate by step.
      facts: Other facts in words, by name: optimizer, precision, where it started.
      calibration: The temperature; None if the probabilities have none.
      decision: The threshold; None if the most probable class is predicted.
      label_decisions: The thresholds of several labels; None if each is 0.5.
      splits: The evaluated splits.
    """

    metric: str
    best_seed: int
    seeds: list[SeedTraining]
    learning_rates: Curve
    facts: dict[str, str]
    calibration: TemperatureScaling | None = None
    decision: Decision | None = None
    label_decisions: LabelDecisions | None = None
    splits: list[str] = []

    @property
    def threshold(self) -> float | list[float] | None:
        """The threshold of the exported model, as in `metrics.Rows.of`."""
        decision = self.decision or self.label_decisions
        return decision.threshold if decision else None


class Search(Record):
    """The search for settings of the Trainer.

    Attributes:
      metric: The metric of the evaluation split that it selected by.
      space: `tuner.space` of the recipe.
      best: Number of the trial whose settings were found.
    """

    metric: str
    space: dict[str, list[Any]]
    trials: list[Trial]
    best: int

    @property
    def sentence(self) -> str:
        """What was searched and found, in a sentence."""
        best = self.trials[self.best]
        counts = [wording.count(len(self.trials), "trial")]
        for state in ("pruned", "failed"):
            if count := sum(trial.state == state for trial in self.trials):
                counts.append(f"{count} {state}")
        settings = ", ".join(
            f"{name} {formatting.setting_value(value)} of "
            f"[{', '.join(map(formatting.setting_value, self.space[name]))}]"
            for name, value in best.values.items()
        )
        score = formatting.score(best.value)
        return (
            f"search: {', '.join(counts)}; trial {best.number + 1} has the best "
            f"{self.metric} on {EVAL_SPLIT}, {score}, with {settings}"
        )


class PrecisionRecall(Record):
    """The precision-recall curve of one class against the others, or of one label.

    Attributes:
      curve: Recall as `x`, precision as `y`.
      average_precision: The area below it.
      positives: Share of the rows that have the class, the precision of chance.
    """

    class_name: str
    curve: Curve
    average_precision: float
    positives: float


class Classification(Record):
    """Predicted classes of the gate's split, compared with the labels.

    Attributes:
      confusion: Rows by label (outer) and predicted class (inner); empty if a row may
        have several labels.
      label_rows: The rows with each of several labels; empty if a row has one class.
      precision_recall: A curve for each class; of two, of the positive one.
      calibration: Bins of equal width (Guo et al. 2017, section 2). A row counts once
        for each of several labels.
      expected_calibration_error: The mean difference of confidence and accuracy.
      unscaled: The bins of the probabilities without the temperature; empty if the
        model has none.
    """

    confusion: list[list[int]]
    label_rows: list[int] = []
    precision_recall: list[PrecisionRecall]
    calibration: list[CalibrationBin]
    expected_calibration_error: float
    unscaled: list[CalibrationBin] = []


class Abstention(Record):
    """A split whose improbable classes are not predicted.

    Attributes:
      curve: The share of rows without a class as `x`, the accuracy of the others as
        `y`, for every least probability.
      points: Some least probabilities, in ascending order.
    """

    split: str
    rows: int
    curve: Curve
    points: list[abstention.Point]


class Regression(Record):
    """Labels and predicted scores of some rows of the gate's split."""

    labels: list[float]
    scores: list[float]


class PredictedRow(Record):
    """A row of the gate's split with its prediction.

    Attributes:
      texts: In the order of the task's text columns; empty if unknown.
      label: Name of its class, or its score.
      prediction: Name of the predicted class, or the predicted score.
      probabilities: By class; empty for a regression.
      loss: Cross entropy, or squared error.
      tokens: The tokens that the model saw, without padding; empty if unknown.
      cut: How many tokens truncation cut; None if unknown.
    """

    id: int
    texts: list[str]
    label: str
    prediction: str
    probabilities: dict[str, float]
    loss: float
    tokens: list[str]
    cut: int | None


class Column(Record):
    """Statistics of a column of a split.

    Attributes:
      kind: Its type: INT, FLOAT or STRING.
      missing: Rows without a value.
      distinct: Number of distinct values, estimated; None if unknown.
      mean: Mean of the values, or of the strings' lengths in characters; None without
        values.
      minimum: Smallest value or shortest string; None if unknown.
      maximum: Largest value or longest string; None if unknown.
      top_values: The most frequent values with their counts.
    """

    name: str
    kind: str
    missing: int = 0
    distinct: int | None = None
    mean: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    top_values: list[tuple[str, int]] = []


class Split(Record):
    """A split of the data, with the statistics of its columns."""

    name: str
    rows: int
    columns: list[Column]


class Batch(Record):
    """The first batch of the training: the model's inputs, int[batch][seq_len]."""

    input_word_ids: list[list[int]]
    input_mask: list[list[int]]
    input_type_ids: list[list[int]]


class LineageStep(Record):
    """A step between the data and the model.

    Attributes:
      version: Its hash or version.
      details: Further facts by name.
    """

    kind: Literal["data", "commit", "code", "settings", "encoder", "libraries", "model"]
    name: str
    version: str
    uri: str | None = None
    details: dict[str, str] = {}


class Report(RecordFile):
    """A run of the pipeline. Parts that a refused run did not reach are empty or None.

    Attributes:
      pipeline: Name of the recipe.
      created: When the report was written, in UTC, as ISO 8601.
      outcome: `pushed`, `refused` or `data refused`.
      reasons: Why the data or the model are refused.
      split: The split that decides.
      splits: Empty if rows could not be read.
      intervals: 95 % confidence intervals of metrics, from a bootstrap over the rows.
      majority: The metrics of always predicting the most frequent class of `train`, or
        the mean score.
      checks: The results of the checks.
      commits: The commits of recipe and code; None if they are unknown.
      classification: The predicted classes; None for a regression.
      abstention: The evaluated splits without improbable classes; empty for a
        regression.
      regression: The predicted scores; None for a classification.
      worst_rows: The rows with the highest loss, the worst first.
      components: Seconds by component, in the order of their start; if it is cached,
        those of the execution that wrote its outputs. Empty on an orchestrator, which
        shows the times itself.
      lineage: From the data to the model.
      pushed: The directory that the model is served from; None if it was not pushed.
      settings: The recipe.
    """

    FILE = "report.json"
    FORMAT = 2

    pipeline: str
    created: str
    outcome: Outcome
    reasons: list[str]
    task: TaskConfig
    split: str
    packing: Packing
    data: DataVerdict
    splits: list[Split] = []
    verdict: Verdict | None = None
    intervals: dict[str, tuple[float, float]] = {}
    majority: dict[str, float] = {}
    serving_check: ServingReport | None = None
    checks: list[CheckResult] = []
    commits: Commits | None = None
    search: Search | None = None
    training: Training | None = None
    classification: Classification | None = None
    abstention: list[Abstention] = []
    regression: Regression | None = None
    worst_rows: list[PredictedRow] = []
    batch: Batch | None = None
    components: dict[str, float] = {}
    lineage: list[LineageStep] = []
    pushed: str | None = None
    settings: dict[str, Any] = {}

    @property
    def conclusion(self) -> str:
        """The outcome in a sentence."""
        if self.outcome == DATA_REFUSED:
            return "The data are refused; nothing was trained."
        if self.pushed is None:
            return "The model is refused; the served version is unchanged."
        return f"The model is pushed as version {os.path.basename(self.pushed)}."

    @property
    def metrics(self) -> list[MetricVerdict]:
        """The metrics on the split: those with bounds first, those of a class last."""
        metrics = self.verdict.metrics if self.verdict else []
        shown = (metric for metric in metrics if metric.metric != EXAMPLE_COUNT)
        return sorted(shown, key=lambda metric: "/" in metric.metric)

    @property
    def slices(self) -> list[Slice]:
        """The slices; empty if the model was not evaluated."""
        return self.verdict.slices if self.verdict else []

    @property
    def selection(self) -> str:
        """See `describe_selection`."""
        return describe_selection([self.split])
