"""A run: its record, the files next to it, and what its components wrote."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from contracts import verdicts
from contracts.errors import DataRefusedError
from contracts.records import RecordFile
from contracts.records.checks import CheckResult, ChecksReport, sort_results
from contracts.records.data import DataVerdict
from contracts.records.evaluation import Verdict
from contracts.records.serving import ServingReport
from contracts.run_states import DATA_REFUSED, RunState
from contracts.storage import uris
from ingest.examples.data_card import CARD_FILE, DataCard
from pipeline.config import recipe, tfx_names
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.operations.record import (
    LOG_FILE,
    SETTINGS_FILE,
    RunRecord,
    describe_damage,
    match_tfx_run,
    read_file,
)
from report.content import Report
from report.run_metadata import ComponentRun, MetadataError, MetadataReader, values

logger = logging.getLogger(__name__)

_File = TypeVar("_File", bound=RecordFile)


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that has ended, or that is running.

    A file that is not written yet, was deleted or, after a warning, cannot be read is
    None or empty; `settings` and `log` raise. Without ML Metadata, or TFX's id of the
    run, no component has started.

    Attributes:
      paths: Its output directory.
      record: Its record.
    """

    paths: OutputPaths
    record: RunRecord

    @property
    def id(self) -> str:
        """The name of its record below `runs/` of the output directory."""
        return self.record.id

    @property
    def directory(self) -> Path:
        """The directory of its record."""
        return self.paths.run(self.id)

    @property
    def state(self) -> RunState:
        """`pushed`, `refused`, `data refused`, `running`, `failed`, `interrupted`."""
        return self.record.state

    @property
    def reason(self) -> str:
        """Why nothing was pushed; empty if a version was."""
        return self.record.reason

    @property
    def pushed(self) -> Path | None:
        """The directory of the version that it pushed; None if it pushed none."""
        return None if self.record.pushed is None else Path(self.record.pushed)

    @property
    def data(self) -> DataCard | None:
        """Where its rows came from; None before they are read."""
        return read_file(str(self.directory / CARD_FILE), DataCard)

    @property
    def settings(self) -> Config:
        """Its recipe with every setting.

        Raises:
          UsageError: The file cannot be read.
        """
        return recipe.load_config(self.directory / SETTINGS_FILE, is_past=True)

    @property
    def settings_problem(self) -> str:
        """Why its recipe cannot be read; empty if it can."""
        path = self.directory / SETTINGS_FILE
        try:
            yaml.safe_load(path.read_bytes())
        except (OSError, yaml.YAMLError) as error:
            return describe_damage(path, error)
        return ""

    @property
    def log(self) -> str:
        """The log of TensorFlow, TFX and Beam.

        Raises:
          OSError: The file cannot be read.
        """
        return (self.directory / LOG_FILE).read_text("utf-8", "replace")

    @functools.cached_property
    def report(self) -> Report | None:
        """Its report."""
        path = str(self.directory / Report.FILE)
        return read_file(path, Report, Report.FORMAT)

    @property
    def components(self) -> list[ComponentRun]:
        """Its components, in the order of their start.

        Raises:
          MetadataError: ML Metadata cannot be read.
        """
        return [component for component, _ in self._executions]

    @functools.cached_property
    def artifacts(self) -> dict[tuple[str, str], Any]:
        """The output artifacts by component and key.

        Raises:
          MetadataError: ML Metadata cannot be read.
        """
        return {
            (component.name, key): artifact
            for component, outputs in self._executions
            for key, artifact in outputs.items()
        }

    @functools.cached_property
    def _executions(self) -> list[tuple[ComponentRun, dict[str, Any]]]:
        if self.record.tfx_run_id is None or not self.paths.metadata.exists():
            return []
        reader = MetadataReader.of_file(self.paths.metadata)
        executions = []
        for component, execution in reader.executions(self.record.tfx_run_id):
            # ML Metadata lists a component as running if its process was killed.
            if component.state == "running" and self.state != "running":
                component = dataclasses.replace(component, state="interrupted")
            executions.append((component, reader.outputs(execution)))
        return executions

    @functools.cached_property
    def data_verdict(self) -> DataVerdict | None:
        """DataGate's verdict."""
        return self._read(tfx_names.DATA_VERDICT, DataVerdict)

    @functools.cached_property
    def verdict(self) -> Verdict | None:
        """The Evaluator's verdict."""
        return self._read(tfx_names.MODEL_VERDICT, Verdict)

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics on all rows of the split that decides; empty without a model."""
        return {m.metric: m.value for m in self.verdict.metrics} if self.verdict else {}

    @functools.cached_property
    def serving_check(self) -> ServingReport | None:
        """The report of the serving check."""
        return self._read(tfx_names.INFRA_BLESSING, ServingReport)

    @property
    def checks(self) -> list[CheckResult]:
        """The results of all checks, refusals first; those after the push included."""
        of_report = self.report.checks if self.report else []
        return sort_results(of_report or self.model_checks.results)

    @functools.cached_property
    def model_checks(self) -> ChecksReport:
        """The results of the checks before the push."""
        found = self._read(tfx_names.MODEL_CHECKS_BLESSING, ChecksReport)
        return found or ChecksReport()

    @property
    def destination(self) -> str | None:
        """Directory that AtomicPusher pushed to; None if it pushed no version."""
        properties = self._properties(tfx_names.PUSHED_MODEL)
        if not properties.get(verdicts.PUSHED):
            return None
        return properties[verdicts.PUSHED_DESTINATION]

    @property
    def refusal(self) -> str:
        """Why the ended run did not push its model; empty if it did."""
        if self.destination is not None:
            return ""
        properties = self._properties(tfx_names.PUSHED_MODEL)
        reasons = verdicts.refusal(
            self.verdict.failures if self.verdict else [],
            self.serving_check.reasons if self.serving_check else [],
            self.model_checks.refusals,
            properties.get(verdicts.WITHDRAWN_VERSION, ""),
        )
        return "; ".join(reasons)

    @property
    def page(self) -> Path | None:
        """The page of the report; its numbers are in a file next to it."""
        artifact = self.artifacts.get(tfx_names.PAGE)
        return Path(artifact.uri) if artifact else None

    @property
    def missing(self) -> str:
        """What Report could not write, and the error; empty if nothing is missing."""
        return self._properties(tfx_names.PAGE).get(verdicts.MISSING, "")

    def _read(self, output: tuple[str, str], record: type[_File]) -> _File | None:
        artifact = self.artifacts.get(output)
        return artifact and read_file(uris.join(artifact.uri, record.FILE), record)

    def _properties(self, output: tuple[str, str]) -> dict[str, Any]:
        artifact = self.artifacts.get(output)
        return values(artifact) if artifact else {}


@contextlib.contextmanager
def recording(run: Run) -> Iterator[None]:
    """Records the start and the end of a run, in a directory that must not exist.

    Call `finish` of the record at the end of the run.
    """
    record, metadata = run.record, run.paths.metadata
    run.directory.mkdir(parents=True)
    record.write(run.directory)
    try:
        yield
    except Exception as error:
        record.state = "failed"
        if isinstance(error, DataRefusedError):
            record.state = DATA_REFUSED
        record.reason = str(error) or type(error).__name__
        raise
    except BaseException:  # Ctrl-C, SIGTERM or SIGHUP
        record.state = "interrupted"
        raise
    finally:
        record.ended = datetime.datetime.now(datetime.timezone.utc)
        try:
            if metadata.exists():
                tfx_runs = MetadataReader.of_file(metadata).run_times()
                record.tfx_run_id = match_tfx_run(tfx_runs, record.id)
                if record.state == "failed":  # perhaps after the push
                    record.pushed = Run(run.paths, record).destination
        except MetadataError as error:  # the error of the run is raised, not this one
            logger.warning("%s", error)
        record.write(run.directory)
