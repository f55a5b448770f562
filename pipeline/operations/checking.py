"""Runs the checks of a recipe on a pushed version."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from components.model_checks import registry
from components.model_checks.check import Facts
from contracts import metrics
from contracts.errors import SettingError, UsageError
from contracts.records.checks import CheckResult
from contracts.records.evaluation import Slice
from contracts.redaction import Redaction, import_function
from contracts.storage import uris
from contracts.versions import exported_model, served_versions
from ingest.examples import resolve_examples
from pipeline.config import recipe
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs.resolved_checks import resolve_checks
from pipeline.operations.record import SETTINGS_FILE
from pipeline.operations.runs import find_run
from report.redacted import redact_checks

if TYPE_CHECKING:
    from components.model_checks.host import Host


def find_recipe(model: str, overrides: Mapping[str, Any] | None = None) -> Config:
    """Returns the settings of the run that pushed a version.

    Args:
      model: The version's directory.
      overrides: Values by dotted key.

    Raises:
      UsageError: The run is unknown, or it had checks whose files are beside its
        recipe.
    """
    try:
        run = find_run(OutputPaths.at(model, ""), model)
    except UsageError as error:
        raise _recipe_missing(f"the run that pushed {model} is unknown") from error
    config = recipe.load_config(run.directory / SETTINGS_FILE, overrides)
    own = [name for name, _ in config.checks.sections() if registry.is_own(name)]
    for name in filter(None, [*own, config.redact]):
        raise _recipe_missing(f"the file of {name} may be beside the recipe")
    return config


def _recipe_missing(reason: str) -> UsageError:
    advice = "name the recipe with `recipe=FILE`"
    return UsageError(
        "recipe", f"missing: {reason}", advice=advice, name="E-option-missing"
    )


def check_version(
    model: str, config: Config, report: Callable[[str], None] = lambda _: None
) -> list[CheckResult]:
    """Runs the checks of a recipe on a version; no champion is compared.

    The examples are prepared below the output directory of the recipe, as by a run.

    Args:
      model: The version's directory.
      config: The recipe.
      report: Called with a line for the user.

    Raises:
      UsageError: The model has another task, it cannot predict the split that decides,
        or the data or the checks cannot be resolved.
    """
    task, paths = config.task, OutputPaths.of(config)
    expected = exported_model.describe_task(task)
    if difference := exported_model.find_task_difference(model, expected):
        raise SettingError(
            "task",
            f"the model {model} has a different one: {difference}",
            advice="name the recipe of the model with `recipe=FILE`",
        )
    redaction = None
    if config.redact is not None:
        redaction = Redaction(import_function(config.redact, config.directory))
    checks = resolve_checks(config, paths)
    examples = resolve_examples(
        config.data_source, task, paths.examples, report, config.data, config.halving
    )
    settings = config.with_split(examples.patterns).sections
    # It imports TFX.
    from components.model_checks import host, runner

    facts = Facts(
        task=task,
        split=settings.evaluator.gate_split,
        significance=config.evaluator.significance,
        metrics={},
        slices=[],
        not_compared="a pushed version is not compared with the champion",
        thresholds={host.CANDIDATE: host.read_threshold(model)},
        splitting=None if examples.span else examples.card.splitting,
    )
    with host.Host(
        settings,
        facts,
        {
            split: uris.join(examples.directory, pattern)
            for split, pattern in examples.patterns.items()
        },
        {host.CANDIDATE: model},
        pushed=_find_directory(model),
        identity=exported_model.identity(model),
    ) as called:
        called.limit(settings.serving.timeout_seconds, "serving.timeout_seconds")
        try:
            called.facts = _measure(called)
        except RuntimeError as error:
            raise UsageError(
                model,
                f"it cannot predict {facts.split}: {error}",
                advice="serve another version with `rollback`",
                name="E-serving-failed",
            ) from error
        results = runner.run_checks(
            checks.configure(), called, directory=checks.directory
        )
    if redaction:
        redact_checks(results, redaction)
    return results


def _find_directory(model: str) -> str | None:
    """Returns the directory of versions that a model is in; None if it is in none."""
    parent, name = os.path.split(model.rstrip("/"))
    if not served_versions.is_version(name):
        return None
    is_withdrawn = os.path.basename(parent) == served_versions.WITHDRAWN
    return os.path.dirname(parent) if is_withdrawn else parent


def _measure(host: Host) -> Facts:
    """Returns the facts with the metrics that an Evaluator would have computed."""
    facts, task = host.facts, host.facts.task
    recorded = host.call("recorded", facts.split)
    rows = metrics.Rows.of(
        recorded.labels, recorded.outputs, predicted=recorded.predicted
    )
    slices = host.rows(facts.split, None).slices
    return dataclasses.replace(
        facts,
        metrics=metrics.compute(task.classes, rows),
        slices=[
            part
            for feature, values in sorted(slices.items())
            for part in _slice(feature, np.array(values), rows, task.classes)
        ],
    )


def _slice(
    feature: str, values: np.ndarray, rows: metrics.Rows, classes: list[str] | None
) -> Iterator[Slice]:
    for value in np.unique(values):
        chosen = np.flatnonzero(values == value)
        computed = metrics.compute(classes, rows.take(chosen))
        finite = {k: number for k, number in computed.items() if math.isfinite(number)}
        yield Slice(
            feature=feature,
            value=str(value),
            rows=len(chosen),
            metrics=finite,
            champion={},
        )
