"""Report: the last component, which describes the run for people."""

import json
import logging
import tempfile
import traceback

from tfx import v1 as tfx
from tfx.types import artifact_utils
from tfx.types import standard_artifacts as standard
from tfx.utils import io_utils

from components.artifacts import HTML, DataVerdict, ModelVerdict
from components.model_checks import component as model_checks
from components.report import run_report
from components.report.driver import RunFacts
from contracts.records.checks import ChecksReport
from contracts.redaction import Redaction
from contracts.settings.sections import Reads, Sections
from contracts.storage import files, uris
from contracts.verdicts import (
    COMMITS,
    MISSING,
    PUSHED,
    PUSHED_DESTINATION,
    WITHDRAWN_VERSION,
)
from report import version_files
from report.content import ERROR_FILE, MODEL_PICTURE, PAGE_FILE
from report.model_picture import draw_model
from report.redacted import redact_checks, redact_report
from report.report_files import statistics_files, write_error, write_report

logger = logging.getLogger(__name__)


@tfx.dsl.components.component
def Report(
    examples: tfx.dsl.components.InputArtifact[standard.Examples],
    statistics: tfx.dsl.components.InputArtifact[standard.ExampleStatistics],
    data_verdict: tfx.dsl.components.InputArtifact[DataVerdict],
    hyperparameters: tfx.dsl.components.InputArtifact[standard.HyperParameters],
    model_run: tfx.dsl.components.InputArtifact[standard.ModelRun],
    model_verdict: tfx.dsl.components.InputArtifact[ModelVerdict],
    infra_blessing: tfx.dsl.components.InputArtifact[standard.InfraBlessing],
    pushed_model: tfx.dsl.components.InputArtifact[standard.PushedModel],
    report: tfx.dsl.components.OutputArtifact[HTML],
    settings: tfx.dsl.components.Parameter[str],
    recipe: tfx.dsl.components.Parameter[str],
    vocab_file: tfx.dsl.components.Parameter[str],
    lineage: tfx.dsl.components.Parameter[str],
    checks: tfx.dsl.components.Parameter[str],
    pushed: tfx.dsl.components.Parameter[str],
    splitting: tfx.dsl.components.Parameter[str],
    significance: tfx.dsl.components.Parameter[float],
    fingerprint: tfx.dsl.components.Parameter[str],
    redact: tfx.dsl.components.Parameter[str] = "null",
    cache: tfx.dsl.components.Parameter[str] = None,
    components: tfx.dsl.components.Parameter[str] = None,
    versions: tfx.dsl.components.Parameter[str] = None,
    last_failure: tfx.dsl.components.Parameter[int] = None,
    best_hyperparameters: tfx.dsl.components.InputArtifact[
        standard.HyperParameters
    ] = None,
) -> None:
    """Runs the checks that decide nothing, and writes report and card of a model.

    The model has been pushed or refused, so an error does not fail the run. The page
    then shows the error, and has the custom property `MISSING`. It is not cached.

    Args:
      examples: The raw Examples.
      statistics: StatisticsGen's, of all splits.
      data_verdict: DataGate's.
      hyperparameters: The training settings, including the run's parameters.
      model_run: The Trainer's records and predictions.
      model_verdict: Evaluator's.
      infra_blessing: ModelChecks', with the files of ServingCheck's.
      pushed_model: Pusher's. The card is written into the pushed version.
      report: `report.html`; `report.json`, `checks.json` with the results of all
        checks, and `model.svg` are next to it.
      settings: JSON of the settings in `READS`.
      recipe: JSON of all settings that affect a run's results, to show them.
      vocab_file: One token a line. Its encoder's settings are next to it.
      lineage: JSON: the `content.LineageStep`s between the data and the model.
      checks: JSON of the checks that run after the push; see `registry.parse`.
      pushed: Directory of the pushed versions.
      splitting: JSON: the `splitting` of the data's card. null if their splits were not
        made here, or if they are a span.
      significance: `evaluator.significance`.
      fingerprint: Hash of this code and its templates; part of the cache key.
      redact: JSON of the function that redacts texts; see `Redaction.parse`.
      cache: Directory of the results of earlier runs; None without a cache.
      components: JSON: seconds by component. Set by the driver; None if
        no driver runs.
      versions: The other pushed versions, which these checks may compare. Set by the
        driver, as a part of the cache key.
      last_failure: ID of the last page with an error, or 0. Set by the driver, so that
        the cache does not return such a page.
      best_hyperparameters: What the Tuner found; None without a search.
    """
    del last_failure, versions
    has_page, folder = False, tempfile.TemporaryDirectory()
    missing = "the report and the model card"
    try:
        files.delete(uris.join(report.uri, ERROR_FILE))  # of an earlier attempt
        config = Sections.parse(settings)
        split = artifact_utils.get_split_uri([examples], config.evaluator.gate_split)
        destination = None
        if pushed_model.get_int_custom_property(PUSHED):
            destination = pushed_model.get_string_custom_property(PUSHED_DESTINATION)
        results = ChecksReport.read(infra_blessing.uri)
        assert results  # ModelChecks has ended
        results.results += model_checks.run(
            checks,
            config,
            examples,
            model_run,
            model_verdict,
            significance=significance,
            cache=cache,
            code=fingerprint,
            pushed=pushed,
            splitting=json.loads(splitting),
        )
        redaction = Redaction.parse(redact, folder.name)
        if redaction:
            redact_checks(results.results, redaction)
        results.write(report.uri)
        trainer = io_utils.get_only_uri_in_dir(hyperparameters.uri)
        written = run_report.describe_run(
            config,
            recipe=json.loads(recipe),
            vocab_file=vocab_file,
            lineage=json.loads(lineage),
            statistics=statistics_files(statistics),
            data_verdict=data_verdict.uri,
            examples=uris.join(split, "*"),
            hyperparameters=json.loads(io_utils.read_string_file(trainer)),
            search=best_hyperparameters and best_hyperparameters.uri,
            model_run=model_run.uri,
            model_verdict=model_verdict.uri,
            infra_blessing=infra_blessing.uri,
            checks=results.results,
            pushed=destination,
            withdrawn=pushed_model.get_string_custom_property(WITHDRAWN_VERSION),
            commits=pushed_model.get_string_custom_property(COMMITS),
            components=json.loads(components or "{}"),
        )
        if redaction:
            redact_report(written, redaction)
            if redaction.note:
                logger.warning(redaction.note)
        write_report(report.uri, written)
        has_page, missing = True, "the model card"
        if destination is not None:
            version_files.write(destination, written)
        missing = MODEL_PICTURE
        draw_model(model_run.uri, report.uri)
    except Exception as error:
        logger.exception("missing: %s", missing)
        reason = next(iter(str(error).strip().splitlines()), "")
        message = f"{missing} ({type(error).__name__}: {reason})"
        write_error(report.uri, message, traceback.format_exc(), has_page=has_page)
        report.set_string_custom_property(MISSING, message)
    finally:
        folder.cleanup()
    # The interfaces of Kubeflow and Vertex AI show the file at the URI.
    report.uri = uris.join(report.uri, PAGE_FILE)


Report.DRIVER_CLASS = RunFacts
Report.READS = Reads(
    name=True,
    task=True,
    preprocessing=True,
    data={"slice_columns"},
    evaluator={"split"},
    serving={"max_memory_bytes"},
)
