"""The report of a run on this machine, from ML Metadata."""

from __future__ import annotations

import dataclasses
from typing import Any

from components.artifacts import PUSHED_DESTINATION, WITHDRAWN_VERSION
from components.data_gate import DataGate, read_data_verdict
from components.evaluator import Evaluator, Verdict, read_verdict
from components.pusher import AtomicPusher
from components.serving_check import ServingCheck, read_reasons
from pipeline.config.paths import OutputPaths
from pipeline.history.metadata import ComponentRun, MetadataReader, values


@dataclasses.dataclass(frozen=True)
class RunReport:
    """A finished run.

    Attributes:
      components: In the order of their start.
      data: The verdict of DataGate, of this run or the one that it was cached from.
      verdict: The Evaluator's, with the metrics on all rows of `evaluator.split`.
      serving_failures: Why the serving check refused the model.
      pushed: The directory that the model is served from; None if it was refused.
      withdrawn: The version of the model that was rolled back, so that it is not pushed
        again; empty if there is none.
    """

    components: list[ComponentRun]
    data: dict[str, Any]
    verdict: Verdict
    serving_failures: list[str]
    pushed: str | None
    withdrawn: str = ""

    @property
    def refusal(self) -> str:
        """Why the model was not pushed; empty if it was."""
        if self.pushed is not None:
            return ""
        if self.withdrawn:
            return (
                f"the model is version {self.withdrawn}, which was rolled back; "
                f"`rollback {self.withdrawn}` serves it again"
            )
        reasons = "; ".join([*self.verdict.failures, *self.serving_failures])
        return reasons or "the Evaluator did not bless the model"

    def value(self, metric: str) -> float | None:
        """Returns a metric on all rows; None if it was not evaluated."""
        values = {m.metric: m.value for m in self.verdict.metrics}
        return values.get(metric)


def read_report(paths: OutputPaths) -> RunReport:
    """Reads the report of the latest run.

    Args:
      paths: The output directory of the run.
    """
    reader = MetadataReader(paths.metadata)
    components, outputs = [], {}
    for component, execution in reader.latest_run():
        components.append(component)
        for key, artifact in reader.outputs(execution).items():
            outputs[component.name, key] = artifact
    pushed = values(outputs[AtomicPusher.__name__, "pushed_model"])
    return RunReport(
        components=components,
        data=read_data_verdict(outputs[DataGate.__name__, "verdict"].uri),
        verdict=read_verdict(outputs[Evaluator.__name__, "verdict"].uri),
        serving_failures=read_reasons(outputs[ServingCheck.__name__, "blessing"].uri),
        pushed=pushed[PUSHED_DESTINATION] if pushed["pushed"] else None,
        withdrawn=pushed.get(WITHDRAWN_VERSION, ""),
    )
