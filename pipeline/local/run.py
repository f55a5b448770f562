"""Runs the pipeline on this machine and shows its progress."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from absl import logging as absl_logging
from rich.console import Console

from modules import environment, file_lock
from pipeline.config.errors import DataRefusedError, UsageError
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.history import run_record

if TYPE_CHECKING:
    from pipeline.local.report import RunReport

# Log messages of LocalDagRunner.
_RUNNING = "Component %s is running."
_FINISHED = "Component %s is finished."


def run_locally(config: Config, console: Console) -> RunReport:
    """Runs the pipeline in this process.

    Args:
      config: The settings. They are stored with the run.
      console: Shows progress. The output of TensorFlow, TFX and Beam goes to the run's
        log file.

    Returns:
      The report of the run.

    Raises:
      UsageError: A source or the data is invalid, which ends the run; or another run
        uses the output directory.
    """
    paths = OutputPaths.of(config)
    started = datetime.datetime.now()
    record = paths.run(started.strftime(run_record.ID_FORMAT))
    with (
        hold_output(paths, f"run {record}"),
        run_record.recording(record, config, paths.metadata) as entry,
    ):
        report = _run_recorded(config, paths, record, console)
        entry.finish(report.pushed, report.refusal, report.value(config.task.metric))
        return report


@contextlib.contextmanager
def hold_output(paths: OutputPaths, run: str) -> Iterator[None]:
    """Holds the lock of an output directory as long as the context is open.

    The kernel releases it when the process ends, even by SIGKILL.

    Args:
      paths: The output directory.
      run: Describes this run to another one that requests the lock.

    Raises:
      UsageError: Another process holds the lock.
    """
    paths.root.mkdir(parents=True, exist_ok=True)
    try:
        with file_lock.hold(paths.lock, f"process {os.getpid()}, {run}\n"):
            yield
    except file_lock.LockedError as error:
        raise UsageError(
            f"output {paths.root} is in use by {error.owner}; wait until it ends, or "
            "name another directory with --output DIR"
        ) from error


def _run_recorded(
    config: Config, paths: OutputPaths, record: Path, console: Console
) -> RunReport:
    _write_config(config, record)
    log = record / "run.log"
    console.print(f"run record {record}", style="dim", soft_wrap=True)
    with redirect_output(log), console.status("starting TensorFlow and TFX") as status:
        progress = ProgressHandler(console, status)
        try:
            with progress.attached():
                return _run(config, paths, record, console)
        except Exception:
            logging.getLogger(__name__).exception("the run stopped")
            raise


def _write_config(config: Config, record: Path) -> None:
    (record / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")


def _run(
    config: Config, paths: OutputPaths, record: Path, console: Console
) -> RunReport:
    with environment.importing():
        from tfx import v1 as tfx

        from components.champion import ChampionError
        from components.data_gate import DataAnomaliesError
        from components.warm_start import WarmStartError
        from pipeline.inputs.examples.bad_rows import BadRowsError
        from pipeline.inputs.resolve import resolve_inputs
        from pipeline.local.report import read_report
        from pipeline.pipeline import create_pipeline
        from pipeline.platforms import local_platform

    platform = local_platform(paths, config.beam)
    try:
        inputs = resolve_inputs(config, paths, console.print)
    except BadRowsError as error:
        error.card.write(record)
        raise
    if inputs.examples.span is not None:
        # With the span that was resolved, so that the record repeats the run.
        _write_config(config.with_span(inputs.examples.span.number), record)
    card = inputs.examples.card
    card.write(record)
    dag = create_pipeline(config, inputs, platform)
    try:
        tfx.orchestration.LocalDagRunner().run(dag)
    except DataAnomaliesError as error:
        raise DataRefusedError(str(error)) from error
    except (ChampionError, WarmStartError) as error:
        raise UsageError(str(error)) from error
    report = read_report(paths)
    card.model_copy(update={"profile": report.data["profile"]}).write(record)
    return report


@contextlib.contextmanager
def redirect_output(log: Path) -> Iterator[None]:
    """Redirects the output of this process to a file, that of C++ included.

    Args:
      log: The file, which also gets the records of Python's logging.
    """
    saved = [os.dup(descriptor) for descriptor in (1, 2)]
    handler = logging.FileHandler(log)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    logging.getLogger().addHandler(handler)
    try:
        with open(log, "ab", buffering=0) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
            yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for descriptor, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)
        logging.getLogger().removeHandler(handler)
        handler.close()


class ProgressHandler(logging.Handler):
    """Shows the progress of a run from its log records.

    LocalDagRunner logs when components start and finish; records of `modules`, such as
    training steps, and the warnings of `components` are shown as they are.

    Args:
      console: Shows a line for each finished component.
      status: A `rich.status.Status` that shows the running component.
    """

    _LOGGERS = ("absl", "components", "modules")

    def __init__(self, console: Console, status) -> None:  # type: ignore[no-untyped-def]
        super().__init__(logging.INFO)
        self._console = console
        self._status = status
        self._component = ""
        self._started = 0.0

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Handles records as long as the context is open."""
        loggers = [logging.getLogger(name) for name in self._LOGGERS]
        verbosity = absl_logging.get_verbosity()
        # absl resets its logger to its own verbosity.
        absl_logging.set_verbosity(absl_logging.INFO)
        for logger in loggers:
            logger.addHandler(self)
            logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            absl_logging.set_verbosity(verbosity)
            for logger in loggers:
                logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Shows a record about components or training."""
        if record.msg == _RUNNING:
            self._component = record.getMessage().split()[1]
            self._started = time.monotonic()
            self._status.update(self._component)
        elif record.msg == _FINISHED:
            seconds = time.monotonic() - self._started
            self._console.print(f"[green]✓[/] {self._component} {seconds:.1f} s")
        elif record.name.startswith("modules"):
            message = record.getMessage()
            self._status.update(f"{self._component}: {message}")
            if not self._console.is_terminal or record.levelno > logging.INFO:
                self._console.print(f"  {message}")
        elif record.name.startswith("components") and record.levelno > logging.INFO:
            self._console.print(
                f"  warning: {record.getMessage()}", markup=False, soft_wrap=True
            )
