"""ModelChecks: the checks of a model that must pass before it is pushed."""

import json
import logging
import tempfile
from typing import Any

from tfx import types
from tfx import v1 as tfx
from tfx.components.util import model_utils
from tfx.types import artifact_utils
from tfx.types import standard_artifacts as standard
from tfx.utils import io_utils, path_utils

from components import blessings
from components.artifacts import NOT_COMPARED, ModelVerdict
from components.model_checks import host, registry
from components.model_checks.check import Facts
from components.model_checks.host import CANDIDATE, CHAMPION, Host
from components.model_checks.runner import run_checks
from contracts import fingerprint as fingerprints
from contracts import user_modules
from contracts.records.checks import CheckResult, ChecksReport
from contracts.records.evaluation import Verdict
from contracts.settings.sections import Reads, Sections
from contracts.storage import uris
from contracts.verdicts import PUSHED_DESTINATION
from contracts.versions import exported_model, served_versions

logger = logging.getLogger(__name__)

# The settings that checks may depend on besides their own.
READS = Reads(
    task=True,
    data={"slice_columns"},
    evaluator={"split"},
    serving={"max_memory_bytes"},
)


@tfx.dsl.components.component
def ModelChecks(
    examples: tfx.dsl.components.InputArtifact[standard.Examples],
    model: tfx.dsl.components.InputArtifact[standard.Model],
    model_run: tfx.dsl.components.InputArtifact[standard.ModelRun],
    champion: tfx.dsl.components.InputArtifact[standard.Model],
    model_verdict: tfx.dsl.components.InputArtifact[ModelVerdict],
    model_blessing: tfx.dsl.components.InputArtifact[standard.ModelBlessing],
    infra_blessing: tfx.dsl.components.InputArtifact[standard.InfraBlessing],
    blessing: tfx.dsl.components.OutputArtifact[standard.InfraBlessing],
    settings: tfx.dsl.components.Parameter[str],
    checks: tfx.dsl.components.Parameter[str],
    significance: tfx.dsl.components.Parameter[float],
    fingerprint: tfx.dsl.components.Parameter[str],
    cache: tfx.dsl.components.Parameter[str] = None,
) -> None:
    """Blesses a model that Evaluator, ServingCheck and all checks accept.

    Args:
      examples: The raw Examples.
      model: The exported model.
      model_run: The Trainer's, with its predictions.
      champion: The model in production; empty if no version is served, or if it has
        another task.
      model_verdict: Evaluator's, with the metrics of slices.
      model_blessing: Evaluator's.
      infra_blessing: ServingCheck's.
      blessing: Read by Pusher instead of both. It has the files of ServingCheck's, and
        `checks.json`, a `contracts.records.checks.ChecksReport`.
      settings: JSON of the settings in `READS`.
      checks: JSON of the checks; see `registry.parse`.
      significance: `evaluator.significance`.
      fingerprint: Hash of this code; part of the cache key.
      cache: Directory of the results of earlier runs, below the pipeline root; None
        without a cache. TFX has one cache key for all checks, so that a changed check
        would rerun all of them.
    """
    unserved = ""
    if not model_utils.is_infra_validated(infra_blessing):
        unserved = "ServingCheck refused the model, so that it cannot be called"
    results = run(
        checks,
        Sections.parse(settings),
        examples,
        model_run,
        model_verdict,
        model=path_utils.serving_model_path(model.uri),
        champion=champion,
        unserved=unserved,
        cache=cache,
        significance=significance,
        code=fingerprint,
    )
    report = ChecksReport(results=results)
    io_utils.copy_dir(infra_blessing.uri, blessing.uri)
    report.write(blessing.uri)
    is_blessed = (
        not unserved
        and model_utils.is_model_blessed(model_blessing)
        and not report.refusals
    )
    blessings.write_blessing(blessing, blessings.INFRA, is_blessed=is_blessed)
    for refusal in report.refusals:
        logger.error("the model is not blessed: %s", refusal)
    for warning in report.warnings:
        logger.warning(warning)


def run(
    checks: str,
    config: Sections,
    examples: types.Artifact,
    model_run: types.Artifact,
    model_verdict: types.Artifact,
    *,
    significance: float,
    cache: str | None,
    code: str,
    model: str = "",
    champion: types.Artifact | None = None,
    unserved: str = "",
    pushed: str | None = None,
    splitting: dict[str, Any] | None = None,
) -> list[CheckResult]:
    """Runs the checks of a run of the pipeline.

    Args:
      checks: JSON of the checks that run now; see `registry.parse`.
      config: The settings in `READS`.
      examples: The raw Examples.
      model_run: The Trainer's.
      model_verdict: Evaluator's.
      significance: `evaluator.significance`.
      cache: Directory of the results of earlier runs; None without a cache.
      code: Hash of the code besides the checks.
      model: Directory of the candidate; the Trainer's if it is empty.
      champion: The model in production; None without one.
      unserved: Why the candidate cannot be called; empty if it can.
      pushed: Directory of the pushed versions; None before the push.
      splitting: As in `Facts`.
    """
    content = json.loads(checks)
    if not content["sections"]:
        return []
    verdict = Verdict.read(model_verdict.uri)
    assert verdict  # the Evaluator has ended
    digest = exported_model.read_digest(model_run.uri)
    models = {CANDIDATE: model or digest.uri}
    not_compared, champion_key = verdict.not_compared or "", ""
    if champion is not None:
        not_compared = champion.get_string_custom_property(NOT_COMPARED) or ""
        if champion.get_string_custom_property(PUSHED_DESTINATION):
            models[CHAMPION] = path_utils.serving_model_path(champion.uri)
            champion_key = exported_model.identity(models[CHAMPION])
    facts = Facts(
        task=config.task,
        split=config.evaluator.gate_split,
        significance=significance,
        metrics={metric.metric: metric.value for metric in verdict.metrics},
        slices=verdict.slices,
        not_compared=not_compared,
        thresholds={name: host.read_threshold(path) for name, path in models.items()},
        splitting=splitting,
    )
    versions = []
    if pushed is not None:
        versions = list(served_versions.list_others(pushed, digest.identity))
    inputs = [
        code,
        config.model_dump(mode="json", exclude={"serving"}),
        significance,
        digest.identity,
        examples.uri,
        verdict.model_dump(mode="json", include={"metrics", "slices"}),
        champion_key,
        not_compared,
        unserved,
        versions,
        splitting,
    ]
    keys = {
        name: fingerprints.of_json([content["fingerprints"][name], section, *inputs])
        for name, section in content["sections"].items()
    }
    patterns = {
        split: uris.join(artifact_utils.get_split_uri([examples], split), "*")
        for split in artifact_utils.decode_split_names(examples.split_names)
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        Host(
            config,
            facts,
            patterns,
            models,
            model_run=model_run.uri,
            pushed=pushed,
            identity=digest.identity,
            unserved=unserved,
        ) as called,
    ):
        directory = user_modules.fetch(content["directory"], folder)
        configured = registry.configure(content["sections"], directory)
        results = run_checks(
            configured, called, directory=directory, cache=cache, keys=keys
        )
    if pushed is not None:
        # The model is pushed or refused already.
        for result in results:
            if result.status == "refused":
                result.status = "warning"
    return results


ModelChecks.READS = READS
