"""The settings that every check of a model has."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import PositiveInt

from contracts.section import Settings


class RowsFile:
    """Marks a setting as a file with labelled rows; see `LabelledRows`."""


# A file with rows, in any format that the pipeline reads. Before a run, its rows are
# read and validated; a check gets the path of a file that `read_rows` reads.
LabelledRows = Annotated[str, RowsFile()]


class CheckSettings(Settings):
    """The settings that every check has.

    Attributes:
      action: What a failed check does: `refuse` refuses the model, `warn` pushes it
        with a warning, and `ignore` does not run the check. A check that raises an
        error, exceeds `timeout` or returns no result has failed.
      timeout: Maximum time of the check in seconds.
    """

    action: Literal["refuse", "warn", "ignore"] = "refuse"
    timeout: PositiveInt = 600

    @classmethod
    def rows_settings(cls) -> list[str]:
        """Returns the names of the settings that are `LabelledRows`."""
        return [
            name
            for name, field in cls.model_fields.items()
            if any(map(_marks_rows, [*field.metadata, *get_args(field.annotation)]))
        ]

    @property
    def failed(self) -> Literal["refused", "warning"]:
        """The status of a result that is not good enough."""
        return "refused" if self.action == "refuse" else "warning"


def _marks_rows(value: Any) -> bool:
    """Returns whether a part of an annotation is `RowsFile`, or `LabelledRows`."""
    return any(isinstance(part, RowsFile) for part in (value, *get_args(value)))
