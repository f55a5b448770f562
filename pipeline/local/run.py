"""Runs the pipeline on this machine."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import os
import shutil
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from contracts import signals
from contracts.errors import DataRefusedError, UsageError
from contracts.records.data import DataVerdict
from contracts.settings import cluster
from contracts.storage import file_lock, files, uris
from ingest import output_directory
from ingest.examples.bad_rows import BadRowsError
from modules import environment
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.console import Console, WarningPrinter
from pipeline.inputs.resolve import check_sources, find_data, resolve_inputs
from pipeline.local import interruption
from pipeline.local.progress import RunProgress
from pipeline.operations import cleaning, provenance
from pipeline.operations.provenance import check_commits, warn_of_commits
from pipeline.operations.record import (
    LOG_FILE,
    RECORD_FILE,
    RESTORE,
    SETTINGS_FILE,
    RunRecord,
    new_run_id,
)
from pipeline.operations.run import Run, recording
from pipeline.platforms import local_platform
from report import run_metadata
from report.content import MODEL_PICTURE, PAGE_FILE, Report
from report.run_metadata import MetadataReader

_ADVICE = "name another directory with `output=DIR`"

logger = logging.getLogger(__name__)


def run_locally(config: Config, console: Console, *, verbose: bool = False) -> Run:
    """Runs the pipeline in this process.

    Args:
      config: The settings, which are stored in the run's record.
      console: The terminal that shows the progress. The output of TensorFlow, TFX and
        Beam goes to the run's log file.
      verbose: Whether the log is shown, too.

    Returns:
      The run.

    Raises:
      UsageError: A source, the data or `TF_CONFIG` is invalid, another run uses the
        output directory, its ML Metadata cannot be read, or a policy requires a commit.
      KeyboardInterrupt: Ctrl-C stopped the run.
      SystemExit: SIGTERM or SIGHUP stopped it.
    """
    paths = OutputPaths.of(config)
    prepare(config, paths)
    commits = check_commits(config)
    record = RunRecord(
        id=new_run_id(),
        recipe=config.name,
        metric=config.task.metric,
        commits=commits,
    )
    run = Run(paths, record)
    directory = run.directory
    stopper = signals.Stopper()
    with (
        stopper.restored(),  # the record of a run that was stopped may fill the disk
        hold_output(paths, f"run {directory}", private=config.private),
        contextlib.ExitStack() as recorded,
    ):
        # TFX would add its tables to any database. A killed run leaves an empty one.
        if run_metadata.has_content(paths.metadata):
            run_metadata.connect(paths.metadata)
        elif next(paths.artifacts.glob("*/*"), None):
            # In a new database the ids, which name directories, begin anew.
            raise UsageError(
                str(paths.metadata),
                f"missing or empty, but {paths.artifacts} has artifacts of its runs",
                advice=f"{RESTORE}, or move the artifacts away",
                name="E-record-damaged",
            )
        with _writing(paths):
            recorded.enter_context(recording(run))
            recorded.enter_context(stopper.restored())  # the log may, too
            recorded.enter_context(redirect_output(directory / LOG_FILE))
            _write_config(config, directory)
        progress = RunProgress(console, verbose=verbose, record=directory)

        def explain_stop(signal: str) -> None:
            reason = f"stopped by {signal}"
            progress.explain_stop(signal)
            logger.warning(reason)
            try:
                record.stop(reason, directory)
            except OSError as error:
                file = directory / RECORD_FILE
                logger.warning("%s cannot be written: %s", file, error.strerror)

        console.print(f"run record {directory}", style="dim", soft_wrap=True)
        with (
            interruption.stopping(progress.show, explain_stop, stopper),
            progress.shown(),
            stopper.restored(),
        ):
            warn_of_commits(commits)
            try:
                _run(config, run, progress)
            except Exception:
                logger.exception("the run stopped")
                raise
        record.finish(
            run.destination,
            run.refusal,
            run.metrics.get(record.metric),
            {result.name: result.status for result in run.checks},
        )
    return run


def prepare(config: Config, paths: OutputPaths) -> None:
    """Checks what needs no record of the run; `hold_output` checks the files.

    Raises:
      UsageError: `TF_CONFIG` is invalid, TFX would read the output's path as a file
        pattern, the data do not exist, or a remote source does not respond.
    """
    cluster.prepare_local_run(config.trainer.strategy)
    uris.refuse_pattern("output", str(paths.root))
    find_data(config)
    check_sources(config)


def _writing(paths: OutputPaths) -> contextlib.AbstractContextManager[None]:
    return output_directory.usage_errors(paths.root, _ADVICE)


@contextlib.contextmanager
def hold_output(
    paths: OutputPaths, run: str, *, private: bool = False
) -> Iterator[None]:
    """Holds the lock of an output directory as long as the context is open.

    The kernel releases it when the process ends, even by SIGKILL.

    Args:
      paths: The output directory.
      run: Describes this run in the error of another process that requests the lock.
      private: Whether to make what runs wrote here, and all files that this process and
        its children write in the context, readable by this user only. Pushed versions
        keep their permissions.

    Raises:
      UsageError: Another process holds the lock, or the directory cannot be written.
    """
    with contextlib.ExitStack() as held:
        try:
            with _writing(paths):
                output_directory.make(paths.root)
                if private:
                    held.enter_context(_private_files(paths))
                lock = file_lock.hold(paths.lock, f"process {os.getpid()}, {run}\n")
                held.enter_context(lock)
                # Another user may have run here before.
                for path in paths.directories:
                    if os.path.lexists(path):
                        output_directory.make(path)
                inner = (*paths.artifacts.glob("*"), *paths.training.glob("*"))
                for path in (paths.metadata, *inner):
                    if path.exists() and not os.access(path, os.W_OK):
                        error = errno.EACCES
                        raise PermissionError(error, os.strerror(error), str(path))
        except file_lock.LockedError as error:
            raise UsageError(
                "output",
                f"{paths.root} is in use by {error.owner}",
                advice=f"wait until it ends, or {_ADVICE}",
                name="E-output-in-use",
            ) from error
        yield


@contextlib.contextmanager
def _private_files(paths: OutputPaths) -> Iterator[None]:
    """Makes an output directory and new files private; see `hold_output`."""
    paths.pushed.mkdir(parents=True, exist_ok=True)
    # The root itself is not changed: a model server of another user reads versions.
    written = {*paths.directories, paths.metadata, paths.lock, paths.commits}
    for path in written - {paths.pushed}:
        if path.exists():
            path.chmod(stat.S_IMODE(path.stat().st_mode) & 0o700)
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _write_config(config: Config, record: Path) -> None:
    (record / SETTINGS_FILE).write_text(config.to_yaml(), encoding="utf-8")


def _run(config: Config, run: Run, progress: RunProgress) -> None:
    paths, record, directory = run.paths, run.record, run.directory
    # TFX takes seconds to import: `run --help` does not wait for it, and the import
    # itself runs while the progress is shown.
    with environment.importing():
        from tfx import v1 as tfx

        from components.data_gate import DataAnomaliesError
        from components.serving_check import model_process
        from pipeline.pipeline import create_pipeline
        from report.data_part import describe_refused_data
        from report.report_files import write_report

    platform = local_platform(paths, config.beam)
    try:
        inputs = resolve_inputs(config, paths, progress.show)
    except BadRowsError as error:
        error.card.write(directory)
        verdict = _describe_bad_rows(error)
        report = describe_refused_data(config.sections, verdict, {})
        write_report(str(directory), report)
        raise _with_report(error, directory) from error
    assert record.commits is not None
    files.write_record(str(paths.commits), record.commits.model_dump(mode="json"))
    record.dependencies = provenance.find_dependencies(inputs.encoder)
    record.write(directory)
    provenance.warn_of_changed_dependencies(record, paths)
    # The record has the resolved split and span, so that its settings repeat the run.
    config = config.with_split(inputs.examples.patterns)
    if inputs.examples.span is not None:
        config = config.with_span(inputs.examples.span.number)
    _write_config(config, directory)
    card = inputs.examples.card
    card.write(directory)
    dag = create_pipeline(config, inputs, platform)
    progress.expect([component.id for component in dag.components])
    try:
        with cleaning.checking_artifacts(paths):
            tfx.orchestration.LocalDagRunner().run(dag)
    except DataAnomaliesError as error:
        write_report(str(directory), error.report)
        raise _with_report(error, directory) from error
    finally:
        model_process.end_kept()  # if ModelChecks was cached
    record.tfx_run_id = MetadataReader.of_file(paths.metadata).latest_run_id()
    page, data_verdict = run.page, run.data_verdict
    assert page is not None
    assert data_verdict is not None
    _copy_report(page, directory)
    card.model_copy(update={"profile": data_verdict.profile}).write(directory)


def _with_report(error: DataRefusedError, directory: Path) -> DataRefusedError:
    """Returns the error with the path of the page."""
    return DataRefusedError(
        error.setting,
        f"{error.got}\nreport: {directory / PAGE_FILE}",
        error.allowed,
        error.advice,
        name=error.name,
    )


def _copy_report(page: Path, record: Path) -> None:
    """Copies a report to the record, which is kept when artifacts are deleted."""
    for name in (PAGE_FILE, Report.FILE, MODEL_PICTURE):
        path = page.with_name(name)
        if path.exists():  # if Report failed, there are no numbers and no picture
            shutil.copyfile(path, record / name)


def _describe_bad_rows(error: BadRowsError) -> DataVerdict:
    return DataVerdict(
        card=error.card.model_dump(),
        # The indented lines are the problems; the others are the verdict and advice.
        problems=[
            line.strip()
            for line in error.sentence().splitlines()
            if line.startswith(" ")
        ],
    )


@contextlib.contextmanager
def redirect_output(log: Path) -> Iterator[None]:
    """Redirects the output of this process, C++ and logging included, to a file."""
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    streams = [s for s in (sys.stdout, sys.stderr) if isinstance(s, io.TextIOWrapper)]
    names = ("encoding", "errors", "line_buffering")
    settings = [{name: getattr(s, name) for name in names} for s in streams]
    handler = logging.FileHandler(log, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(
        logging.Formatter(
            "%(asctime)s %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"
        )
    )
    root = logging.getLogger()
    printers = [h for h in root.handlers if isinstance(h, WarningPrinter)]
    for printer in printers:  # stderr is the file: it would have each warning twice
        root.removeHandler(printer)
    root.addHandler(handler)
    try:
        with open(log, "ab", buffering=0) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
            for stream in streams:
                # Each line at once: logging and C++ write to the same file.
                stream.reconfigure(
                    encoding="utf-8", errors="backslashreplace", line_buffering=True
                )
            yield
    finally:
        for stream, previous in zip(streams, settings, strict=True):
            stream.reconfigure(**previous)  # flushes it, too
        for descriptor, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)
        root.removeHandler(handler)
        handler.close()
        for printer in printers:
            root.addHandler(printer)
