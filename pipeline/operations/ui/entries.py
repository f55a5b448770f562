"""Lists the runs of several output directories, with their reports."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pipeline.config.paths import OutputPaths
from pipeline.operations.record import (
    LOG_FILE,
    SETTINGS_FILE,
    Progress,
    describe_damage,
    read_progress,
)
from pipeline.operations.run import Run
from pipeline.operations.runs import RunList
from report.content import Curve, Report, SeedTraining
from report.formatting import local_time

_LOG_BYTES = 1 << 20  # read from the end


@dataclasses.dataclass(frozen=True)
class Entry(Run):
    """A run with its report.

    Attributes:
      key: Its path in addresses: the index of the output directory, and the run's id.
      name: Its start, with a number if an earlier run started in the same second.
    """

    key: str
    name: str

    @functools.cached_property
    def report(self) -> Report | None:
        """Its report; None if the file is missing or cannot be read."""
        report, _ = self._read_report()
        return report

    @property
    def problems(self) -> list[str]:
        """What cannot be read of its record, a line each."""
        _, problem = self._read_report()
        problems = [self.record.damage, self.settings_problem, problem]
        return [problem for problem in problems if problem]

    def _read_report(self) -> tuple[Report | None, str]:
        path = self.directory / Report.FILE
        try:
            return _read_report(path, path.stat().st_mtime_ns), ""
        except FileNotFoundError:  # before its end
            return None, ""
        except (OSError, ValueError) as error:
            return None, describe_damage(path, error)

    @property
    def progress(self) -> Progress:
        """Its components and its training so far."""
        return read_progress(self.directory)

    @property
    def settings_text(self) -> str:
        """Its recipe."""
        return self._read_text(SETTINGS_FILE)

    @property
    def log(self) -> str:
        """The end of its log."""
        return self._read_text(LOG_FILE)

    def _read_text(self, name: str) -> str:
        try:
            with open(self.directory / name, "rb") as file:
                size = file.seek(0, 2)
                file.seek(max(size - _LOG_BYTES, 0))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    @property
    def losses(self) -> Curve | None:
        """Its training loss by step, of the exported seed; None if unknown."""
        if seed := self._best_seed:
            return seed.losses
        training = self.progress.training
        if training is None or not training.losses:
            return None
        steps = [float(step) for step in training.loss_steps]
        return Curve(x=steps, y=training.losses)

    @property
    def evaluations(self) -> Curve | None:
        """The metric that decides by step, of the exported seed; None if unknown."""
        seed = self._best_seed
        return seed.evaluations.get(self.record.metric) if seed else None

    @property
    def _best_seed(self) -> SeedTraining | None:
        report = self.report
        if report is None or report.training is None:
            return None
        best = report.training.best_seed
        return next(seed for seed in report.training.seeds if seed.seed == best)


@functools.lru_cache(maxsize=64)
def _read_report(path: Path, modified: int) -> Report | None:
    """Reads a report; `modified` is a part of the cache key."""
    del modified
    return Report.read(str(path.parent))


def list_entries(outputs: Sequence[Path]) -> tuple[list[Entry], list[str]]:
    """Returns the runs of output directories, the newest first, and their problems."""
    entries, problems = [], []
    for index, output in enumerate(outputs):
        runs = RunList(OutputPaths(output, ""))
        entries += [
            Entry(r.paths, r.record, f"{index}/{r.id}", local_time(r.record.started))
            for r in runs
        ]
        problems += runs.problems
    entries.sort(key=lambda entry: entry.id, reverse=True)
    counts: Counter[str] = Counter()
    for index, entry in reversed(list(enumerate(entries))):
        counts[entry.name] += 1
        if (number := counts[entry.name]) > 1:
            name = f"{entry.name} ({number})"
            entries[index] = dataclasses.replace(entry, name=name)
    return entries, problems
