"""The words for how far a run and its components are, and how they are marked."""

from __future__ import annotations

from typing import Literal, NamedTuple

# How a run can end with a report.
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
      color: A color of the terminal.
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
    "interrupted": Mark("✕", "yellow"),
}
