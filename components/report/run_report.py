"""The report of a run that trained a model, from what its components wrote."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from typing import Any

from contracts import fingerprint, run_states, verdicts
from contracts.commits import Commits
from contracts.records.checks import CheckResult, ChecksReport
from contracts.records.data import DataVerdict
from contracts.records.evaluation import Verdict
from contracts.records.serving import ServingReport
from contracts.settings.sections import Sections
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from contracts.versions import exported_model
from modules.evaluation import resampling
from modules.evaluation.prediction_files import read_predictions
from modules.training import trials
from report import predictions_part
from report.content import LineageStep, Report, Search
from report.data_part import describe_data
from report.training_part import read_batch, read_training


def describe_run(
    settings: Sections,
    *,
    recipe: dict[str, Any],
    vocab_file: str,
    lineage: list[dict[str, Any]],
    statistics: Mapping[str, str],
    data_verdict: str,
    examples: str,
    hyperparameters: dict[str, Any],
    search: str | None,
    model_run: str,
    model_verdict: str,
    infra_blessing: str,
    checks: list[CheckResult],
    pushed: str | None,
    withdrawn: str,
    commits: str,
    components: dict[str, float],
) -> Report:
    """Returns the report of a run.

    Args:
      settings: The settings of the run.
      recipe: The settings that affect a run's results, by section.
      vocab_file: One token a line. Its encoder's settings are next to it.
      lineage: The fields of each step between the data and the model.
      statistics: File of TFDV's statistics by split.
      data_verdict: Directory of DataGate's verdict.
      examples: Pattern of the Examples of `evaluator.split`.
      hyperparameters: The training settings, which replace those of the recipe.
      search: Directory of what the Tuner found; None without a search.
      model_run: Directory of the Trainer's `ModelRun`.
      model_verdict: Directory of the Evaluator's verdict.
      infra_blessing: Directory of ServingCheck's blessing.
      checks: The results of the checks.
      pushed: Directory that serves the model; None if it was refused.
      withdrawn: The model's version if it was rolled back, or empty.
      commits: JSON of the `Commits` of the run that pushed or refused the model; empty
        if they are unknown.
      components: Seconds by component.
    """
    task, split = settings.task, settings.evaluator.gate_split
    data = DataVerdict.read(data_verdict)
    verdict = Verdict.read(model_verdict)
    check = ServingReport.read(infra_blessing)
    assert data  # the components have ended
    assert verdict
    assert check
    ran = Commits.model_validate_json(commits) if commits else None
    training = read_training(model_run)
    for name in ("epochs", "batch_size"):
        if name in hyperparameters:
            fact = name.replace("_", " ")
            training.facts[fact] = f"{hyperparameters[name]:,}"
    predictions = read_predictions(model_run, task, split)
    ids, labels, outputs, predicted = predictions
    scaling, sections = training.calibration, task.label_kind.sections
    refusals = ChecksReport(results=checks).refusals
    fields = describe_data(settings, data, statistics)
    fields["lineage"] += _describe_lineage(lineage, ran, model_run, pushed)
    return Report(
        **fields,
        outcome=run_states.REFUSED if pushed is None else run_states.PUSHED,
        reasons=verdicts.refusal(verdict.failures, check.reasons, refusals, withdrawn)
        if pushed is None
        else [],
        verdict=verdict,
        intervals={
            name: ends
            for name, ends in resampling.confidence_intervals(
                task, predictions.rows
            ).items()
            if not math.isnan(ends[0])
        },
        majority=task.label_kind.majority_metrics(
            labels, data.labels(TRAIN_SPLIT), task.metric
        ),
        serving_check=check,
        checks=checks,
        commits=ran,
        search=_read_search(task, recipe, search) if search else None,
        training=training,
        classification=predictions_part.classification(
            task,
            labels,
            outputs,
            predicted,
            temperature=scaling.temperature if scaling else None,
        )
        if "classification" in sections
        else None,
        abstention=[
            predictions_part.describe_abstention(
                name, read_predictions(model_run, task, name)
            )
            for name in training.splits
            if "abstention" in sections
        ],
        regression=predictions_part.regression(labels, outputs)
        if "regression" in sections
        else None,
        worst_rows=predictions_part.worst_rows(
            task,
            ids,
            labels,
            outputs,
            predicted=predicted,
            examples=examples,
            vocab_file=vocab_file,
            packing=settings.preprocessing,
        ),
        batch=read_batch(model_run),
        components=components,
        pushed=pushed,
        settings={**recipe, "trainer": hyperparameters},
    )


def _read_search(task: TaskConfig, recipe: dict[str, Any], directory: str) -> Search:
    _, recorded = trials.read_artifact(directory)
    best = trials.find_best(recorded)
    assert best is not None  # without one, the Tuner fails
    return Search.model_validate(
        {
            "metric": task.metric,
            "space": recipe["tuner"]["space"],
            "trials": trials.describe(recorded),
            "best": best.number,
        }
    )


def _describe_lineage(
    steps: list[dict[str, Any]],
    commits: Commits | None,
    model_run: str,
    pushed: str | None,
) -> Iterator[LineageStep]:
    """Yields the steps from the data to the model."""
    for name, commit in commits.parts.items() if commits else ():
        if commit:
            yield LineageStep(
                kind="commit",
                name=name.removeprefix("the "),
                version=commit.id,
                details={"changed": ", ".join(commit.changes)}
                if commit.changes
                else {},
            )
    yield from map(LineageStep.model_validate, steps)
    libraries = fingerprint.library_versions(fingerprint.TRAINER_LIBRARIES)
    yield LineageStep(
        kind="libraries",
        name="TensorFlow",
        version=libraries["tensorflow"],
        details=libraries,
    )
    model = exported_model.read_digest(model_run)
    yield LineageStep(
        kind="model",
        name=os.path.basename(pushed) if pushed else "not pushed",
        version=model.graph[:16],
        uri=pushed or model.uri,
    )
