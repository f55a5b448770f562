"""The states of a run and of its components, and how they are displayed."""

from __future__ import annotations

from typing import Literal, NamedTuple

# The outcomes of a run with a report.
Outcome = Literal["pushed", "refused", "data refused"]
PUSHED: Outcome = "pushed"
REFUSED: Outcome = "refused"
DATA_REFUSED: Outcome = "data refused"

RunState = Literal["running", Outcome, "failed", "interrupted"]
ComponentState = Literal[
    "waiting", "running", "done", "cached", "failed", "interrupted"
]


class Mark(NamedTuple):
    """How a state is shown.

    Attributes:
      symbol: One character, which a spinner may replace while a component is running.
      color: Its color in the terminal.
    """

    symbol: str
    color: str


MARKS: dict[RunState | ComponentState, Mark] = {
    "waiting": Mark("·", "dim"),
    "running": Mark("◌", "cyan"),
    "done": Mark("✓", "green"),
    "cached": Mark("✓", "cyan"),
    "pushed": Mark("✓", "green"),
    "refused": Mark("✕", "yellow"),
    "data refused": Mark("✕", "yellow"),
    "failed": Mark("✕", "red"),
    "interrupted": Mark("\u2016", "magenta"),  # ‖: it can be resumed
}
