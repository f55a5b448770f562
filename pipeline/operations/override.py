"""Pushes a model that the gate refused, by a person's decision."""

from __future__ import annotations

from pathlib import Path

from ml_metadata import errors as metadata_errors
from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts import run_states, verdicts, written_files
from contracts.errors import UsageError
from contracts.records.evaluation import Override
from contracts.versions import served_versions
from pipeline.config import tfx_names
from pipeline.operations import cleaning, releases
from pipeline.operations.record import RESTORE
from pipeline.operations.releases import Release
from pipeline.operations.run import Run
from report import run_metadata, version_files


def override(run: Run, reason: str) -> Release:
    """Pushes the model of a refused run, and records who did it and why.

    The record is in the journal of the served directory, in the Evaluator's
    `verdict.json` and, as an execution, in ML Metadata. An override of the run that was
    killed or failed after the push is completed. The caller holds the lock of the
    output directory.

    Returns:
      The record, with the version that was pushed. A completed override keeps its own
      reason.

    Raises:
      UsageError: The run has no model that only the gate refused, or a file cannot be
        written.
    """
    releases.check_reason(reason)
    run = Run(run.paths, run.record)  # as it is since the lock is held
    require_refused(run)
    from tensorflow import errors  # both take seconds to import
    from tfx.utils import path_utils

    model = path_utils.serving_model_path(run.artifacts[tfx_names.MODEL].uri)
    directory = run.paths.pushed
    try:
        directory.mkdir(parents=True, exist_ok=True)
        intent = releases.find_intent(directory, "override", run.id)
        if intent is not None and served_versions.is_same_model(
            model, str(directory / str(intent.version))
        ):
            release = intent.model_copy(update={"confirmed": True})
        else:
            withdrawn = served_versions.find_withdrawn(str(directory), model)
            if withdrawn:
                reason = verdicts.rolled_back(withdrawn)
                raise UsageError("run", f"{run.id}: {reason}", name="E-rolled-back")
            version = served_versions.choose_version(str(directory), model)
            if (directory / version).exists():
                problem = f"the model is version {version}, which is served already"
                raise UsageError(
                    "run",
                    f"{run.id}: {problem}",
                    advice="`versions` lists what is served",
                    name="E-version-unknown",
                )
            release = Release(
                action="override", version=int(version), reason=reason, run=run.id
            )
        with releases.recording(directory, release):
            _push(run, model, release)
    except (
        OSError,
        errors.OpError,
        metadata_errors.StatusError,
        served_versions.VersionError,
    ) as error:
        text = error.sentence() if isinstance(error, UsageError) else str(error)
        (message, *_) = text.splitlines() or [type(error).__name__]
        raise releases.storage_failed(
            directory, f"the override of run {run.id} failed: {message}"
        ) from error
    return release


def _push(run: Run, model: str, release: Release) -> None:
    """Pushes a model, unless it is pushed already, and writes all records but one.

    The journal, which the caller writes, has the record of an incomplete override.
    """
    # Its files would be pushed by AtomicPusher, too.
    blessing = run.artifacts[tfx_names.INFRA_BLESSING].uri
    record, version = run.record, str(release.version)
    commits = record.commits.model_dump(mode="json") if record.commits else None
    directory = str(run.paths.pushed)
    served_versions.push(model, directory, version, blessing=blessing, commits=commits)
    _write_metadata(run, release)
    recorded = release.model_dump(mode="json", include=set(Override.model_fields))
    assert run.verdict is not None
    verdict = run.verdict.model_copy(
        update={"override": Override.model_validate(recorded)}
    )
    verdict_directory = Path(run.artifacts[tfx_names.MODEL_VERDICT].uri)
    verdict.write(str(verdict_directory))
    written_files.record(verdict_directory, cleaning.record_of_files(verdict_directory))
    record.pushed = str(run.paths.pushed / version)
    record.write(run.directory)
    if run.report is not None:  # the component Report may have failed
        version_files.write(record.pushed, run.report, recorded)


def require_refused(run: Run) -> None:
    """Refuses a run, unless it has a model that only the gate refused.

    Raises:
      UsageError: The run has no such model; the message names the next step.
    """
    show = f"`show {run.id}` prints why"
    if run.state == run_states.PUSHED:
        raise _not_refused(run, f"was not refused: it pushed {run.pushed}", None)
    intent = releases.find_intent(run.paths.pushed, "override", run.id)
    if intent is None and run.pushed is not None and run.pushed.is_dir():
        raise _not_refused(
            run,
            f"was overridden already: it pushed {run.pushed}",
            "`versions` lists what is served, and `rollback VERSION` serves another "
            "version",
        )
    if run.state != run_states.REFUSED or run.record.tfx_run_id is None:
        problem = f"has no refused model: {run.state}"
        raise _not_refused(run, problem, show if run.reason else None)
    verdict, check = run.verdict, run.serving_check
    if verdict is None:
        artifact = run.artifacts.get(tfx_names.MODEL_VERDICT)
        if artifact is not None and Path(artifact.uri).is_dir():
            raise UsageError(
                artifact.uri,
                f"the verdict of run {run.id} is missing or damaged",
                advice=RESTORE,
                name="E-record-damaged",
            )
        raise _deleted(run, "its artifacts were deleted")
    if check and check.reasons:
        raise _not_refused(
            run,
            "is refused, as the serving check failed, which cannot be overridden",
            f"{show}; correct the cause and run the pipeline again",
        )
    if verdict.blessed and not run.model_checks.refusals:
        raise _not_refused(run, "was not refused by the gate", show)
    model = run.artifacts[tfx_names.MODEL].uri
    if not Path(model).is_dir():
        raise _deleted(run, f"its model {model} was deleted")


def _not_refused(run: Run, problem: str, advice: str | None) -> UsageError:
    got = f"{run.id} {problem}"
    return UsageError("run", got, advice=advice, name="E-override-not-refused")


def _deleted(run: Run, problem: str) -> UsageError:
    got = f"{run.id}: {problem}"
    return UsageError("run", got, advice="run it again", name="E-run-not-finished")


def _write_metadata(run: Run, release: Release) -> None:
    """Adds an execution to ML Metadata that read the model and pushed it.

    It is added once: a killed override may have added it.
    """
    with run_metadata.writing(run.paths.metadata) as store:
        version = str(release.version)
        destination = str(run.paths.pushed / version)
        artifacts = store.get_artifacts_by_type(tfx_names.PUSHED_MODEL_TYPE)
        pushed_to = map(run_metadata.values, artifacts)
        if any(v.get(verdicts.PUSHED_DESTINATION) == destination for v in pushed_to):
            return
        kind = mlmd.ExecutionType(name=tfx_names.OVERRIDE)
        execution = mlmd.Execution(
            type_id=store.put_execution_type(kind),
            last_known_state=mlmd.Execution.COMPLETE,
            custom_properties={
                "by": mlmd.Value(string_value=release.by),
                "reason": mlmd.Value(string_value=release.reason),
                "directory": mlmd.Value(string_value=str(run.paths.pushed)),
                "version": mlmd.Value(string_value=version),
            },
        )
        pushed = mlmd.Artifact(
            # The type that TFX's Pusher registered.
            type_id=store.get_artifact_type(tfx_names.PUSHED_MODEL_TYPE).id,
            uri=destination,
            state=mlmd.Artifact.LIVE,
            custom_properties={
                verdicts.PUSHED: mlmd.Value(int_value=1),
                verdicts.PUSHED_DESTINATION: mlmd.Value(string_value=destination),
                verdicts.PUSHED_VERSION: mlmd.Value(string_value=version),
            },
        )
        inputs = {
            "model": tfx_names.MODEL,
            "model_blessing": tfx_names.MODEL_BLESSING,
            "infra_blessing": tfx_names.INFRA_BLESSING,
        }
        # Runs of earlier releases have no ModelChecks.
        if tfx_names.MODEL_CHECKS_BLESSING in run.artifacts:
            inputs["infra_blessing"] = tfx_names.MODEL_CHECKS_BLESSING
        pairs = [
            (run.artifacts[output], _event(mlmd.Event.INPUT, key))
            for key, output in inputs.items()
        ]
        pairs.append((pushed, _event(mlmd.Event.OUTPUT, tfx_names.PUSHED_MODEL[1])))
        context = store.get_context_by_type_and_name(
            run_metadata.RUN_TYPE, run.record.tfx_run_id
        )
        store.put_execution(execution, pairs, [context])


def _event(kind: int, key: str) -> mlmd.Event:
    event = mlmd.Event(type=kind)
    event.path.steps.add().key = key
    event.path.steps.add().index = 0
    return event
