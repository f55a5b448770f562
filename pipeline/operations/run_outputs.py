"""Reads what the components of a run wrote, without TFX."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, TypeVar

from contracts import verdicts
from contracts.records import RecordFile
from contracts.records.ages import ModelAges
from contracts.records.data import DataVerdict
from contracts.records.evaluation import Verdict
from contracts.records.serving import ServingReport
from contracts.storage import uris
from pipeline.config import tfx_names
from pipeline.operations.record import read_file
from report.run_metadata import ComponentRun, MetadataReader, values

_File = TypeVar("_File", bound=RecordFile)


class RunOutputs:
    """The components of a run and their artifacts.

    Attributes of outputs that are not written yet, were deleted or, after a warning,
    cannot be read are None or empty. Without ML Metadata, or TFX's id of the run, no
    component has started.

    Attributes:
      components: In the order of their start.
      artifacts: The output artifacts by component and key.
    """

    def __init__(
        self, reader: MetadataReader | None = None, tfx_run_id: str | None = None
    ) -> None:
        self.components: list[ComponentRun] = []
        self.artifacts: dict[tuple[str, str], Any] = {}
        if reader is None or tfx_run_id is None:
            return
        for component, execution in reader.executions(tfx_run_id):
            self.components.append(component)
            for key, artifact in reader.outputs(execution).items():
                self.artifacts[component.name, key] = artifact

    @functools.cached_property
    def data_verdict(self) -> DataVerdict | None:
        """DataGate's verdict."""
        return self._read(tfx_names.DATA_VERDICT, DataVerdict)

    @functools.cached_property
    def verdict(self) -> Verdict | None:
        """The Evaluator's verdict."""
        return self._read(tfx_names.MODEL_VERDICT, Verdict)

    @functools.cached_property
    def serving_check(self) -> ServingReport | None:
        """The report of the serving check."""
        return self._read(tfx_names.INFRA_BLESSING, ServingReport)

    @functools.cached_property
    def ages(self) -> ModelAges | None:
        """The older versions on the rows of the run."""
        return self._read(tfx_names.AGES, ModelAges)

    @property
    def pushed(self) -> str | None:
        """Directory of the version that was pushed; None if no version was."""
        properties = self._properties(tfx_names.PUSHED_MODEL)
        if not properties.get(verdicts.PUSHED):
            return None
        return properties[verdicts.PUSHED_DESTINATION]

    @property
    def refusal(self) -> str:
        """Why the ended run did not push its model; empty if it did."""
        if self.pushed is not None:
            return ""
        properties = self._properties(tfx_names.PUSHED_MODEL)
        reasons = verdicts.refusal(
            self.verdict.failures if self.verdict else [],
            self.serving_check.reasons if self.serving_check else [],
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

    def metric_value(self, metric: str) -> float | None:
        """Returns a metric on all rows; None if it was not evaluated."""
        for entry in self.verdict.metrics if self.verdict else []:
            if entry.metric == metric:
                return entry.value
        return None

    def _read(self, output: tuple[str, str], record: type[_File]) -> _File | None:
        artifact = self.artifacts.get(output)
        return artifact and read_file(uris.join(artifact.uri, record.FILE), record)

    def _properties(self, output: tuple[str, str]) -> dict[str, Any]:
        artifact = self.artifacts.get(output)
        return values(artifact) if artifact else {}
