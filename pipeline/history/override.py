"""Pushes a model that the gate refused, on the word of a person."""

from __future__ import annotations

from pathlib import Path

from ml_metadata.proto import metadata_store_pb2 as mlmd

from modules import files, run_metadata, served_versions, uris, verdicts
from modules.report import model_card
from modules.report.content import JSON_FILE, read_report
from pipeline.config.errors import UsageError
from pipeline.config.paths import OutputPaths
from pipeline.history import releases
from pipeline.history.releases import Release
from pipeline.history.run_outputs import RunOutputs
from pipeline.history.run_record import RunRecord
from pipeline.history.runs import Run

EXECUTION_TYPE = "Override"
_RECORDED = {"version", "by", "time", "reason"}


def override(paths: OutputPaths, run: RunRecord, reason: str) -> Release:
    """Pushes the model of a refused run, and records who did it and why.

    The record is in the Evaluator's `verdict.json`, in the journal of the served
    directory and, as an execution, in ML Metadata. Hold the lock of the output
    directory.

    Args:
      paths: The output directory.
      run: The run.
      reason: Is recorded.

    Returns:
      The record, with the version that was pushed.

    Raises:
      UsageError: The run has no model that the gate alone refused.
    """
    outputs = find_refused(paths, run)
    # It takes seconds to import.
    from tfx.utils import path_utils

    model = path_utils.serving_model_path(outputs.artifacts["Trainer", "model"].uri)
    directory = paths.pushed
    directory.mkdir(parents=True, exist_ok=True)
    version = _choose_version(directory, model, run)
    release = Release(
        action="override", version=int(version), reason=reason, run=run.id
    )
    # First the record: a version that is served without one could not be explained.
    _write_verdict(outputs, release)
    releases.add(directory, release)
    examples = _read_examples(outputs)
    served_versions.push(model, str(directory), version, examples=examples)
    _write_metadata(paths, run, outputs, release)
    run.pushed = str(directory / version)
    run.write(paths.run(run.id))
    _write_card(paths, run, release)
    return release


def find_refused(paths: OutputPaths, run: RunRecord) -> RunOutputs:
    """Returns the outputs of a run whose model the gate alone refused.

    Raises:
      UsageError: The run is another one; the message says what to do.
    """
    if run.state == "pushed":
        raise UsageError(f"run {run.id} was not refused: it pushed {run.pushed}")
    if run.pushed is not None and Path(run.pushed).is_dir():
        raise UsageError(
            f"run {run.id} was overridden already: it pushed {run.pushed}; `versions` "
            "lists what is served, and `rollback VERSION` serves another version"
        )
    if run.state != "refused" or run.tfx_run_id is None:
        raise UsageError(
            f"run {run.id} has no refused model: {run.state}"
            + (f", {run.reason}" if run.reason else "")
        )
    outputs = Run(paths, run).outputs
    verdict, check = outputs.verdict, outputs.serving_check
    if verdict is None:
        raise UsageError(f"the artifacts of run {run.id} were deleted; run it again")
    if check and check.reasons:
        raise UsageError(
            f"run {run.id}: the model does not serve ({'; '.join(check.reasons)}); no "
            "override helps it. Correct that and run the pipeline again"
        )
    if verdict.blessed:
        raise UsageError(f"run {run.id} was not refused by the gate: {run.reason}")
    model = outputs.artifacts["Trainer", "model"].uri
    if not Path(model).is_dir():
        raise UsageError(f"the model {model} of run {run.id} was deleted; run it again")
    return outputs


def _read_examples(outputs: RunOutputs) -> str | None:
    """Returns the rows to try the model with, which AtomicPusher would push, too."""
    blessing = outputs.artifacts["ServingCheck", "blessing"]
    path = Path(blessing.uri, verdicts.SERVING_EXAMPLES_FILE)
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _choose_version(directory: Path, model: str, run: RunRecord) -> str:
    withdrawn = served_versions.find_withdrawn(str(directory), model)
    if withdrawn:
        raise UsageError(f"run {run.id}: {verdicts.rolled_back(withdrawn)}")
    version = served_versions.choose_version(str(directory), model)
    if (directory / version).exists():
        raise UsageError(
            f"run {run.id}: the model is version {version}, which is served already"
        )
    return version


def _write_verdict(outputs: RunOutputs, release: Release) -> None:
    assert outputs.verdict is not None
    recorded = release.model_dump(mode="json", include=_RECORDED)
    override = verdicts.Override.model_validate(recorded)
    verdict = outputs.verdict.model_copy(update={"override": override})
    directory = outputs.artifacts["Evaluator", "verdict"].uri
    path = uris.join(directory, verdicts.VERDICT_FILE)
    files.write_record(path, verdict.as_json())


def _write_card(paths: OutputPaths, run: RunRecord, release: Release) -> None:
    report = read_report(str(paths.run(run.id) / JSON_FILE))
    if report is None:  # its Report failed
        return
    pushed = str(paths.pushed / str(release.version))
    described = release.model_dump(mode="json", include=_RECORDED)
    served_versions.write_card(
        pushed, lambda previous: model_card.render(report, previous, described)
    )


def _write_metadata(
    paths: OutputPaths, run: RunRecord, outputs: RunOutputs, release: Release
) -> None:
    """Records an execution that read the model and its blessing, and pushed it."""
    store = run_metadata.connect(paths.metadata, is_writable=True)
    execution = mlmd.Execution(
        type_id=store.put_execution_type(mlmd.ExecutionType(name=EXECUTION_TYPE)),
        last_known_state=mlmd.Execution.COMPLETE,
    )
    properties = {
        "by": release.by,
        "reason": release.reason,
        "directory": str(paths.pushed),
        "version": str(release.version),
    }
    for name, value in properties.items():
        execution.custom_properties[name].string_value = value
    # The type that TFX's Pusher registered.
    pushed_type = store.get_artifact_type("PushedModel")
    destination = str(paths.pushed / str(release.version))
    pushed = mlmd.Artifact(
        type_id=pushed_type.id, uri=destination, state=mlmd.Artifact.LIVE
    )
    pushed.custom_properties[verdicts.PUSHED].int_value = 1
    pushed.custom_properties[verdicts.PUSHED_DESTINATION].string_value = destination
    pushed.custom_properties[verdicts.PUSHED_VERSION].string_value = str(
        release.version
    )
    inputs = {
        "model": outputs.artifacts["Trainer", "model"],
        "model_blessing": outputs.artifacts["Evaluator", "blessing"],
        "infra_blessing": outputs.artifacts["ServingCheck", "blessing"],
    }
    pairs = [
        *(
            (artifact, _event(mlmd.Event.INPUT, key))
            for key, artifact in inputs.items()
        ),
        (pushed, _event(mlmd.Event.OUTPUT, "pushed_model")),
    ]
    context = store.get_context_by_type_and_name(run_metadata.RUN_TYPE, run.tfx_run_id)
    store.put_execution(execution, pairs, [context])


def _event(kind: int, key: str) -> mlmd.Event:
    event = mlmd.Event(type=kind)
    event.path.steps.add().key = key
    event.path.steps.add().index = 0
    return event
