"""The content of a report, as in `report.json`."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from contracts import wording
from contracts.commits import Commits
from contracts.packing import DEFAULT_KEEP, Keep, LongTextConfig, Packing
from contracts.records.probabilities import (
    CalibrationBin,
    Decision,
    LabelDecisions,
    TemperatureScaling,
)
from contracts.run_states import Outcome
from contracts.settings.evaluator import describe_selection
from contracts.storage import files
from contracts.task.definition import EVAL_SPLIT, TaskConfig
from contracts.verdicts import ModelAges
from modules.evaluation import abstention
from report import formatting

# The files of a report. If it failed, the last one has the missing parts, then the
# traceback.
JSON_FILE = "report.json"
PAGE_FILE = "report.html"
MODEL_PICTURE = "model.svg"
ERROR_FILE = "report_error.txt"
# A text column without a benefit that costs this share of tokens or time is a warning.
COSTLY_SHARE = 0.1


class _Part(pydantic.BaseModel):
    # JSON has no NaN or infinity; as strings they are read back.
    model_config = pydantic.ConfigDict(extra="forbid", ser_json_inf_nan="strings")


class Metric(_Part):
    """A metric on all rows of the gate's split.

    Attributes:
      name: Its name.
      value: The model's value.
      interval: 95 % confidence interval, from a bootstrap over the rows, or None.
      majority: The value of always predicting the most frequent class of `train`, or
        the mean score; None if it is undefined.
      linear: The value of a linear model on words; None if it is undefined.
      champion: The champion's value; None if there is no champion.
      threshold: Lowest allowed value, or None.
      max_regression: Largest allowed difference below the champion, or None.
      failures: The bounds that it violates, in words.
    """

    name: str
    value: float
    interval: tuple[float, float] | None = None
    majority: float | None = None
    linear: float | None = None
    champion: float | None = None
    threshold: float | None = None
    max_regression: float | None = None
    failures: list[str] = []


class Curve(_Part):
    """Points of a curve.

    Attributes:
      x: Horizontal coordinates.
      y: Vertical coordinates, one for each of `x`.
    """

    x: list[float]
    y: list[float]


class SeedTraining(_Part):
    """The training from one seed.

    Attributes:
      seed: The seed.
      losses: The training loss by step.
      evaluations: Each metric of the evaluation split by step.
      steps: Steps trained.
      best_step: The step of the best evaluation.
      stopped: Why training ended before its last step, or None.
    """

    seed: int
    losses: Curve
    evaluations: dict[str, Curve]
    steps: int
    best_step: int
    stopped: str | None


class Training(_Part):
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


class SearchTrial(_Part):
    """A training of the search for settings.

    Attributes:
      number: From 0.
      values: The searched settings.
      state: `completed`, `pruned` or `failed`.
      value: The best metric of the evaluation split; None if it is not completed.
      evaluations: Each evaluation: tenths of an epoch, and the metric or None.
      seconds: Its duration.
      reason: Why it was pruned or failed.
    """

    number: int
    values: dict[str, Any]
    state: str
    value: float | None
    evaluations: list[tuple[int, float | None]]
    seconds: float
    reason: str

    @property
    def shown(self) -> float | None:
        """The value, or that of the last evaluation of a pruned trial."""
        if self.state == "pruned" and self.evaluations:
            return self.evaluations[-1][1]
        return self.value


class Search(_Part):
    """The search for settings of the Trainer.

    Attributes:
      metric: The metric of the evaluation split that it selected by.
      space: `tuner.space` of the recipe.
      trials: In their order.
      best: Number of the trial whose settings were found.
    """

    metric: str
    space: dict[str, list[Any]]
    trials: list[SearchTrial]
    best: int

    @property
    def names(self) -> list[str]:
        """The searched settings."""
        return list(self.space)

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


class PrecisionRecall(_Part):
    """The precision-recall curve of one class against the others, or of one label.

    Attributes:
      class_name: The class.
      curve: Recall as `x`, precision as `y`.
      average_precision: The area below it.
      positives: Share of the rows that have the class, the precision of chance.
    """

    class_name: str
    curve: Curve
    average_precision: float
    positives: float


class Classification(_Part):
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


class Abstention(_Part):
    """A split whose improbable classes are not predicted.

    Attributes:
      split: The split.
      rows: How many rows it has.
      curve: The share of rows without a class as `x`, the accuracy of the others as
        `y`, for every least probability.
      points: Some least probabilities, in ascending order.
    """

    split: str
    rows: int
    curve: Curve
    points: list[abstention.Point]


class Regression(_Part):
    """Predicted scores of the gate's split, and the labels.

    Attributes:
      labels: The labels of some of the rows.
      scores: The predicted scores of these rows.
    """

    labels: list[float]
    scores: list[float]


class Slice(_Part):
    """Metrics of a part of the gate's split.

    Attributes:
      feature: What the split is divided by.
      value: The value of this part.
      rows: How many rows it has.
      metrics: Its metrics by name.
      champion: The champion's metrics by name; empty if there is no champion.
      linear: The task's metric of a linear model on words; None if it is unknown.
      thresholds: Lowest allowed values by metric; empty if it is not judged.
      failed: The metrics that are below their thresholds.
    """

    feature: str
    value: str
    rows: int
    metrics: dict[str, float]
    champion: dict[str, float]
    linear: float | None = None
    thresholds: dict[str, float] = {}
    failed: list[str] = []


class SliceGap(_Part):
    """The difference between the slices by one feature.

    Attributes:
      feature: What the split is divided by.
      lowest: The slice with the lowest metric of the task, of those with
        `evaluator.min_slice_rows` rows.
      highest: The one with the highest.
    """

    feature: str
    lowest: Slice
    highest: Slice


class SwappedRow(_Part):
    """A row of the gate's split, and its texts with swapped words.

    Attributes:
      id: Its id.
      texts: Its texts.
      swapped: The texts with swapped words.
      prediction: Name of the predicted class, or the predicted score.
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


class SwappedWords(_Part):
    """What changes if words for groups of people are swapped in texts.

    Attributes:
      name: The list of `evaluator.group_words`.
      rows: The rows with a word of the list.
      versions: Their versions with swapped words.
      changed: Rows with a version that has another prediction.
      interval: The 95 % interval of their share.
      mean_change: Mean absolute change of the probability, or of the score.
      largest: The rows that change most.
    """

    name: str
    rows: int
    versions: int
    changed: int
    interval: tuple[float, float]
    mean_change: float
    largest: list[SwappedRow]


class TextColumn(_Part):
    """A text column of a pair: what it adds to the metrics, and what it costs.

    All of it is of some rows of the gate's split.

    Attributes:
      name: The column.
      rows: How many rows.
      metrics: Their metrics by name.
      permuted: Their metrics if each row has this column of another row.
      benefit: What the task's metric loses by that.
      interval: Its 95 % interval.
      may_be_noise: Whether the loss may be noise.
      tokens: Mean tokens of the column that the model reads.
      token_share: Their share of those of all columns.
      time_share: What a request with one row takes less if the column is empty, as a
        share; None if it was not timed.
      cut_rows: Rows in which truncation cut the column.
    """

    name: str
    rows: int
    metrics: dict[str, float]
    permuted: dict[str, float]
    benefit: float
    interval: tuple[float, float]
    may_be_noise: bool
    tokens: float
    token_share: float
    time_share: float | None = None
    cut_rows: int

    @property
    def warning(self) -> str:
        """Why the column is too costly; empty if it is not."""
        time_share = self.time_share or 0.0
        is_cheap = max(self.token_share, time_share) < COSTLY_SHARE
        if self.is_beneficial or is_cheap:
            return ""
        time = (
            f" and {formatting.percent(time_share)} of the time" if time_share else ""
        )
        return (
            f"{self.name}: no benefit was found on {wording.count(self.rows, 'row')}, "
            "but it has "
            f"{formatting.percent(self.token_share)} of the tokens{time}: leave the "
            "column out, or raise serving.rows for a narrower interval"
        )

    @property
    def is_beneficial(self) -> bool:
        """Whether the model is better with the column than noise explains."""
        return self.benefit > 0 and not self.may_be_noise


class PredictedRow(_Part):
    """A row of the gate's split with its prediction.

    Attributes:
      id: Its id.
      texts: Its texts in the order of the task's text columns; empty if unknown.
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


class Lengths(_Part):
    """Tokens of the rows of a split before truncation, with the special tokens.

    Attributes:
      edges: Edges of the histogram's bins, one more than `counts`.
      counts: Rows in each bin.
      cut_rows: Rows that truncation cut.
      cut_tokens: Tokens that it cut off.
      unknown_share: Share of the tokens that are `[UNK]`; None if unknown.
      tokens_per_word: Tokens of a word on average; None if unknown.
    """

    edges: list[float]
    counts: list[int]
    cut_rows: int
    cut_tokens: int
    unknown_share: float | None = None
    tokens_per_word: float | None = None


class Column(_Part):
    """Statistics of a column of a split.

    Attributes:
      name: The column.
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
    missing: int
    distinct: int | None
    mean: float | None
    minimum: float | None
    maximum: float | None
    top_values: list[tuple[str, int]]


class Split(_Part):
    """A split of the data.

    Attributes:
      name: Its name.
      rows: How many rows it has.
      labels: Rows by class; for a regression, percentiles of the score by name.
      columns: Statistics of its columns.
      lengths: The lengths of its rows in tokens; None if unknown.
    """

    name: str
    rows: int
    labels: dict[str, float]
    columns: list[Column]
    lengths: Lengths | None


class Batch(_Part):
    """The first batch of the training, int[batch][seq_len].

    Attributes:
      input_word_ids: Token ids.
      input_mask: 1 for tokens, 0 for padding.
      input_type_ids: Segments.
    """

    input_word_ids: list[list[int]]
    input_mask: list[list[int]]
    input_type_ids: list[list[int]]


class Data(_Part):
    """The data of the run.

    Attributes:
      splits: The splits.
      anomalies: Why rows or splits are refused; empty if they are not.
      warnings: DataGate's warnings.
      notes: Harmless differences from the schema.
      card: The data card: source, files, license.
      max_seq_length: Maximum tokens; longer rows are cut.
      keep: The part of a longer row that is kept.
      long_text: The windows that a text is read in; None reads it as a whole.
    """

    splits: list[Split]
    anomalies: list[str]
    warnings: list[str]
    notes: list[str]
    card: dict[str, Any]
    max_seq_length: int
    keep: Keep = DEFAULT_KEEP
    long_text: LongTextConfig | None = None

    @property
    def packing(self) -> Packing:
        """How texts became model inputs."""
        return Packing(
            max_seq_length=self.max_seq_length,
            keep=self.keep,
            long_text=self.long_text,
        )


class ComponentTime(_Part):
    """The execution of a component.

    Attributes:
      name: The component.
      seconds: Its duration; if it is cached, that of the execution that wrote its
        outputs.
    """

    name: str
    seconds: float


class LineageStep(_Part):
    """A step between the data and the model.

    Attributes:
      kind: What it is: data, commit, code, settings, encoder, libraries or model.
      name: Its name.
      version: Its hash or version.
      uri: Its location, or None.
      details: Further facts by name.
    """

    kind: Literal["data", "commit", "code", "settings", "encoder", "libraries", "model"]
    name: str
    version: str
    uri: str | None = None
    details: dict[str, str] = {}


class Report(_Part):
    """A run of the pipeline. Parts that a refused run did not reach are empty or None.

    Attributes:
      format: Version of this format.
      pipeline: Name of the recipe.
      created: When the report was written, in UTC, as ISO 8601.
      outcome: `pushed`, `refused` or `data refused`.
      verdict: The verdict in a sentence.
      reasons: Why the data or the model are refused.
      task: The task definition.
      split: The split that decides.
      metrics: Metrics on this split, those with bounds first.
      champion: Directory that serves the champion, or None.
      comparison: What the model was compared with, and whether the difference may be
        noise.
      linear_model: The comparison with a linear model on words.
      commits: The commits of recipe and code; None if they are unknown.
      ages: Older versions on the rows of this run; None without older versions.
      search: The search for settings before it; None without one.
      training: The training.
      classification: The predicted classes; None for a regression.
      abstention: The evaluated splits without improbable classes; empty for a
        regression.
      regression: The predicted scores; None for a classification.
      slices: Metrics of parts of the split.
      slice_gaps: The difference between the slices of each feature that has two.
      swapped_words: What swapped words for groups of people change, by list.
      text_columns: The columns of a pair; empty for a single text and for token ids.
      worst_rows: The rows with the highest loss, the worst first.
      data: The data.
      batch: The first batch.
      components: In the order of their start; empty on an orchestrator, which shows
        their times itself.
      lineage: From the data to the model.
      serving_check: The measurements of the serving check: `serving_check.json`.
      pushed: The directory that the model is served from; None if it was not pushed.
      settings: The recipe.
    """

    pipeline: str
    created: str
    outcome: Outcome
    verdict: str
    reasons: list[str]
    task: TaskConfig
    split: str
    metrics: list[Metric] = []
    champion: str | None = None
    comparison: str = ""
    linear_model: str = ""
    commits: Commits | None = None
    ages: ModelAges | None = None
    search: Search | None = None
    training: Training | None = None
    classification: Classification | None = None
    abstention: list[Abstention] = []
    regression: Regression | None = None
    slices: list[Slice] = []
    slice_gaps: list[SliceGap] = []
    swapped_words: list[SwappedWords] = []
    text_columns: list[TextColumn] = []
    worst_rows: list[PredictedRow] = []
    data: Data
    batch: Batch | None = None
    components: list[ComponentTime] = []
    lineage: list[LineageStep] = []
    serving_check: dict[str, Any] | None = None
    pushed: str | None = None
    settings: dict[str, Any] = {}

    @property
    def selection(self) -> str:
        """See `describe_selection`."""
        return describe_selection([self.split])

    @property
    def column_warnings(self) -> list[str]:
        """A warning of each text column that costs more than it may bring."""
        return [column.warning for column in self.text_columns if column.warning]


def read_report(path: str) -> Report | None:
    """Reads the numbers of a report; returns None if there is no file.

    Raises:
      FormatError: The number of its format is unknown.
    """
    content = files.read_record(path)
    return None if content is None else Report.model_validate(content)
