"""Finished runs: what they measured, their rows, and their comparison."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.errors import UsageError
from contracts.records import evaluation
from pipeline.api import html
from pipeline.api.arguments import check_count, check_output, checked
from pipeline.api.recipes import Recipe
from pipeline.config import recipe as recipe_lib
from pipeline.config import tfx_names
from pipeline.config.paths import DEFAULT_CONFIG, OutputPaths
from pipeline.operations import comparison as comparison_lib
from pipeline.operations import run as run_lib
from pipeline.operations.record import LOG_FILE
from pipeline.operations.runs import LATEST, RunList, find_run
from report import content, page

if TYPE_CHECKING:
    import pandas as pd

_MAX_CHANGED = 10  # rows that a notebook shows
Output = Recipe | str | Path | None


class Report(content.Report):
    """The report of a run: its numbers, which a notebook shows as the page."""

    def __repr__(self) -> str:
        return f"Report({self.pipeline!r}, {self.outcome!r}, {self.created})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html.render("frame.html.jinja", page=page.render(self))


class Verdict(evaluation.Verdict):
    """Why a model is blessed or not."""

    def __repr__(self) -> str:
        return f"Verdict({self.summary!r})"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html.render("verdict.html.jinja", verdict=self)


class Comparison(comparison_lib.Comparison):
    """A comparison of two or more runs, which are tested against the first."""

    def __repr__(self) -> str:
        names = ", ".join(run.name for run in self.runs)
        return f"Comparison({names}; {len(self.changed)} of {self.rows} rows changed)"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        return html.render(
            "compared.html.jinja",
            comparison=self,
            changed=self.changed[:_MAX_CHANGED],
        )

    def changed_rows(self) -> pd.DataFrame:
        """Returns the rows whose prediction differs, the largest change first."""
        import pandas as pd

        return pd.DataFrame([row.model_dump() for row in self.changed])


class Run(run_lib.Run):
    """A run that has ended, or that is running.

    Attributes:
      paths: Its output directory.
      record: Its record.
    """

    @functools.cached_property
    def verdict(self) -> Verdict | None:
        """The Evaluator's verdict; None before it."""
        return self._read(tfx_names.MODEL_VERDICT, Verdict)

    @functools.cached_property
    def report(self) -> Report | None:
        """Its report; None before it is written."""
        return Report.read(str(self.directory))

    def worst_rows(self) -> pd.DataFrame:
        """Returns the rows with the highest loss that the report shows.

        Returns:
          A row each, the worst first: `id`, the text columns, `label`, `prediction`,
          `loss`, and for classes the probability of each, `probability_NAME`.

        Raises:
          UsageError: The run has no report.
        """
        import pandas as pd

        report = self.report
        if report is None:
            raise UsageError(
                f"run {self.id}",
                f"it has no report: its state is {self.state}",
                advice=f"see {self.directory / LOG_FILE}",
                name="E-run-not-finished",
            )
        names = report.task.text_columns
        rows = [
            {
                "id": row.id,
                **dict(zip(names, row.texts or [""] * len(names), strict=True)),
                "label": row.label,
                "prediction": row.prediction,
                "loss": row.loss,
                **{f"probability_{n}": p for n, p in row.probabilities.items()},
            }
            for row in report.worst_rows
        ]
        columns = ["id", *names, "label", "prediction", "loss"]
        return pd.DataFrame(rows, columns=None if rows else columns)

    def require_pushed(self) -> Path:
        """Returns the directory of the version that it pushed.

        Raises:
          UsageError: It pushed none.
        """
        if self.pushed is None:
            raise UsageError(
                f"run {self.id}",
                f"it pushed no model: its state is {self.state}",
                advice="see its `reason` and its `report`",
                name="E-run-not-finished",
            )
        return self.pushed

    def __repr__(self) -> str:
        what = self.pushed or " ".join(self.reason.split())
        return f"Run({self.id}, {self.state}: {what})"

    def _repr_html_(self) -> str:
        return html.render("run.html.jinja", run=self)


@checked
def list_runs(output: Output = None) -> list[Run]:
    """Lists the runs of an output directory, the newest first.

    Args:
      output: The directory, or the recipe of the runs; None is that of the sample.

    Raises:
      UsageError: The directory does not exist.
    """
    return [Run(run.paths, run.record) for run in RunList(find_output(output))]


@checked
def load_run(name: str = LATEST, output: Output = None) -> Run:
    """Returns a run.

    Args:
      name: Its id, the start of its id, or `latest`.
      output: The output directory, or the recipe of the run; None is that of the
        sample.

    Raises:
      UsageError: There is no such run, or there are several.
    """
    run = RunList(find_output(output)).find(name)
    return Run(run.paths, run.record)


@checked
def compare(
    *compared: Run | str | Path,
    output: Output = None,
    split: str | None = None,
    with_texts: bool = True,
) -> Comparison:
    """Compares runs on the rows that all of them predicted.

    Args:
      *compared: Two or more runs: the objects, ids below `output`, `latest`, the
        directories of their records, or pushed versions. The others are compared with
        the first.
      output: The output directory, or the recipe, in which ids are looked up; None is
        that of the first run, or of the sample.
      split: An evaluated split; None is the one that decided.
      with_texts: Whether to read the texts, which takes some seconds.

    Raises:
      UsageError: There are fewer than 2 runs or more than 26, the tasks differ, a run
        has no predictions of the split, or the runs have no row in common.
    """
    check_count(compared, len(comparison_lib.LETTERS))
    first = next((run for run in compared if isinstance(run, Run)), None)
    paths = first.paths if first and output is None else _paths_of(output)
    named = (
        (run.paths, run.id) if isinstance(run, Run) else (paths, str(run))
        for run in compared
    )
    result = comparison_lib.compare(
        [find_run(*place) for place in named], split=split, with_texts=with_texts
    )
    return Comparison.model_construct(**dict(result))


def find_output(output: Output) -> OutputPaths:
    """Returns the paths of an output directory that exists."""
    return check_output(_paths_of(output))


def _paths_of(output: Output) -> OutputPaths:
    if isinstance(output, Recipe):
        return OutputPaths.of(output.settings)
    if output is None:
        return OutputPaths.of(recipe_lib.load_config(DEFAULT_CONFIG, is_past=True))
    return OutputPaths.at(output, "")
