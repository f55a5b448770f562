"""How a model ages: older versions on the rows of a run, by OlderVersions."""

from __future__ import annotations

from typing import Any

from contracts import wording
from contracts.records import Record, RecordFile
from contracts.records.evaluation import Estimate, PairedTest

_SIGNIFICANCE = 0.05  # of the tests of older versions


class OlderVersion(Record):
    """An older pushed version of the model, on the rows of a run.

    Attributes:
      pushed: When it was pushed, in ISO 8601; None if that is unknown.
      age_days: Its age at the measurement; None if that is unknown.
      data: The data that it was trained on; empty if that is not recorded.
      measured: The metric of the task; None if it was not measured.
      paired: A test of it and the new model on the same rows; None if it was not
        measured, or if the rows have no unique ids.
      problem: Why it was not measured; empty if it was.
    """

    version: str
    pushed: str | None = None
    age_days: float | None = None
    data: str = ""
    measured: Estimate | None = None
    paired: PairedTest | None = None
    problem: str = ""

    @property
    def age(self) -> str:
        """The age in words."""
        if self.age_days is None:
            return "of unknown age"
        if self.age_days < 2:
            return f"{wording.count(24 * self.age_days, 'hour')} old"
        return f"{wording.count(self.age_days, 'day')} old"

    @property
    def name(self) -> str:
        """The version with its age and data."""
        data = f", trained on {self.data}" if self.data else ""
        return f"version {self.version} ({self.age}{data})"

    @property
    def sentence(self) -> str:
        """The new model compared with it, in a sentence."""
        if self.problem:
            return f"not compared with {self.name}: {self.problem}"
        if self.paired is not None:
            return f"compared with {self.name}, {self.paired.sentence}"
        assert self.measured is not None
        return f"{self.name} has {self.measured.value:.4f}"


class ModelAges(RecordFile):
    """How a model ages: older versions and the new model on the same rows.

    Attributes:
      rows: The rows that were predicted, all of the split or a sample.
      measured: The metric of the new model on these rows; None without older versions,
        or if the rows have no unique ids.
      versions: The newest first.
    """

    FILE = "ages.json"

    metric: str
    split: str
    rows: int = 0
    measured: Estimate | None = None
    versions: list[OlderVersion] = []

    @property
    def warnings(self) -> list[str]:
        """The versions that are better than the new model."""
        return [
            f"{name} is better than the new model: {how}; "
            "check the data that were added since, and serve the older one with "
            "`rollback` if the new model was pushed"
            for name, how in self._differing(-1)
        ]

    @property
    def conclusion(self) -> str:
        """How the model ages, in a sentence; empty without older versions."""
        compared = [version for version in self.versions if version.paired]
        if not compared:
            return "; ".join(version.sentence for version in self.versions)
        if self.warnings:
            return "newer data did not help: " + "; ".join(self.warnings)
        if aged := self._differing(1):
            ((name, how), *_) = aged
            return (
                f"{name} is worse: {how}; the model ages, if the settings are the same"
            )
        return (
            f"no sign of ageing: {self.metric} of {compared[-1].name} and of newer "
            f"versions differs from the new model's by what may be noise "
            f"({wording.count(self.rows, 'row')} of {self.split}); retraining may be "
            "unnecessary"
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the content of the file: the conclusion first."""
        return {"summary": self.conclusion, **super().as_json()}

    def _differing(self, sign: int) -> list[tuple[str, str]]:
        """Returns the versions that are worse (1) or better (-1), and how much."""
        tests = [(v.name, v.paired) for v in self.versions if v.paired]
        differing = []
        for name, test in tests:
            p_value = min(1.0, len(tests) * test.p_value)  # Bonferroni
            if sign * test.difference > 0 and p_value < _SIGNIFICANCE:  # not for NaN
                how = (
                    f"{self.metric} is {test.a:.3f} instead of {test.b:.3f} on "
                    f"{self.rows:,} rows of {self.split} (p = {p_value:.2g})"
                )
                differing.append((name, how))
        return differing
