"""The report of a run on this machine, from ML Metadata."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from components.artifacts import MISSING, PUSHED_DESTINATION, WITHDRAWN_VERSION
from components.data_gate import DataGate, read_data_verdict
from components.evaluator import Evaluator, Verdict, read_verdict
from components.pusher import AtomicPusher
from components.report import Report
from components.serving_check import ServingCheck
from components.serving_check import read_report as read_serving_report
from modules.report import content
from modules.report.content import JSON_FILE, PAGE_FILE
from modules.report.data_part import describe_refused_data
from modules.verdicts import DataVerdict
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.history.metadata import ComponentRun, MetadataReader, values
from pipeline.inputs.examples.bad_rows import BadRowsError


@dataclasses.dataclass(frozen=True)
class RunReport:
    """A finished run.

    Attributes:
      components: In the order of their start.
      data: The verdict of DataGate, of this run or the one that it was cached from.
      verdict: The Evaluator's, with the metrics on all rows of `evaluator.split`.
      serving_failures: Why the serving check refused the model.
      pushed: The directory that the model is served from; None if it was refused.
      page: The report for a person, with its numbers beside it.
      withdrawn: The version of the model that was rolled back, so that it is not pushed
        again; empty if there is none.
      missing: What Report could not write, and the error; empty if it wrote all.
    """

    components: list[ComponentRun]
    data: DataVerdict
    verdict: Verdict
    serving_failures: list[str]
    pushed: str | None
    page: Path
    withdrawn: str = ""
    missing: str = ""

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
    page = outputs[Report.__name__, "report"]
    return RunReport(
        components=components,
        data=read_data_verdict(outputs[DataGate.__name__, "verdict"].uri),
        verdict=read_verdict(outputs[Evaluator.__name__, "verdict"].uri),
        serving_failures=read_serving_report(
            outputs[ServingCheck.__name__, "blessing"].uri
        )["reasons"],
        pushed=pushed[PUSHED_DESTINATION] if pushed["pushed"] else None,
        withdrawn=pushed.get(WITHDRAWN_VERSION, ""),
        page=Path(page.uri),
        missing=values(page).get(MISSING, ""),
    )


def copy_report(report: RunReport, record: Path) -> RunReport:
    """Copies a report to the record of a run, which outlasts the artifacts.

    Args:
      report: The finished run.
      record: The record of the run.

    Returns:
      The finished run with the copied page.
    """
    for name in (PAGE_FILE, JSON_FILE):
        path = report.page.with_name(name)
        if path.exists():  # a report that failed has no numbers
            shutil.copyfile(path, record / name)
    return dataclasses.replace(report, page=record / PAGE_FILE)


def report_bad_rows(config: Config, error: BadRowsError) -> content.Report:
    """Returns the report of rows that cannot be read."""
    verdict = DataVerdict(
        card=error.card.model_dump(),
        # Without the head, which is the verdict, and the advice.
        problems=[
            line.strip() for line in str(error).splitlines() if line.startswith(" ")
        ],
    )
    return describe_refused_data(config.run_settings, verdict, {})
