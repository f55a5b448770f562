"""What the components of a run wrote, read from its artifacts."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from pipeline.history.metadata import ComponentRun, MetadataReader, values

_SECOND = 1000  # ML Metadata's times are in milliseconds


class RunOutputs:
    """The components of a run and their artifacts.

    It reads the files that components write for people, and not by their classes:
    those import TFX, which takes half a minute.

    Args:
      reader: ML Metadata.
      tfx_run_id: TFX's id of the run. Without both, no component has started.

    Attributes:
      components: In the order of their start.
      artifacts: The output artifacts by component and key.
    """

    def __init__(
        self, reader: MetadataReader | None = None, tfx_run_id: str = ""
    ) -> None:
        self.components: list[ComponentRun] = []
        self.artifacts: dict[tuple[str, str], Any] = {}
        self._executions: list[Any] = []
        if reader is None:
            return
        for component, execution in reader.executions(tfx_run_id):
            self.components.append(component)
            self._executions.append(execution)
            for key, artifact in reader.outputs(execution).items():
                self.artifacts[component.name, key] = artifact

    def read(self, component: str, key: str, file: str) -> dict[str, Any]:
        """Returns a JSON file of an artifact; empty if it does not exist."""
        artifact = self.artifacts.get((component, key))
        path = Path(artifact.uri, file) if artifact else None
        if path is None or not path.is_file():
            return {}
        return json.loads(path.read_bytes())

    @property
    def verdict(self) -> dict[str, Any]:
        """The Evaluator's verdict."""
        return self.read("Evaluator", "verdict", "verdict.json")

    @property
    def serving_check(self) -> dict[str, Any]:
        """The report of the serving check."""
        return self.read("ServingCheck", "blessing", "serving_check.json")

    @property
    def ended(self) -> datetime.datetime | None:
        """When the last component ended."""
        times = [e.last_update_time_since_epoch for e in self._executions]
        if not times:
            return None
        return datetime.datetime.fromtimestamp(max(times) / _SECOND).astimezone()

    @property
    def failed(self) -> str | None:
        """The component that failed; None if none did."""
        failed = [run.name for run in self.components if run.state == "failed"]
        return failed[0] if failed else None

    @property
    def has_ended(self) -> bool:
        """Whether the last component has ended."""
        return ("AtomicPusher", "pushed_model") in self.artifacts

    @property
    def pushed(self) -> str | None:
        """Directory of the version that was pushed; None if there is none."""
        properties = values(self.artifacts["AtomicPusher", "pushed_model"])
        if not properties.get("pushed"):
            return None
        return properties["pushed_destination"]

    @property
    def refusal(self) -> str:
        """The bounds that the model violates and what the serving check found."""
        metrics = self.verdict.get("metrics", [])
        reasons = [text for metric in metrics for text in metric["failures"]]
        return "; ".join([*reasons, *self.serving_check.get("reasons", [])])

    def metric_value(self, metric: str) -> float | None:
        """Returns a metric on all rows; None if it was not evaluated."""
        for entry in self.verdict.get("metrics", []):
            if entry["metric"] == metric:
                return float(entry["value"])
        return None
