"""Judges the rows of all splits: what training would suffer from."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from modules.config.data_gate import DataGateConfig
from modules.config.task import TaskConfig
from modules.data.profile import Profile
from modules.data.row_facts import RowFacts

TRAIN = "train"

# Kinds of findings.
NO_ROWS = "no rows"
ONE_CLASS = "one class"
SMALL_GATE = "small gate"
CONTRADICTIONS = "contradictions"
DUPLICATES = "duplicates"
SHARED = "shared rows"
RARE_CLASS = "rare class"
CUT = "cut texts"
LABEL_DRIFT = "label drift"
LENGTH_DRIFT = "length drift"

_SHOWN = 3
_SCORE_TOLERANCE = 0.2  # of the label range
_DRIFT_P = 0.001
_MANY_CLASSES_SHARE = 0.5  # of an equal share


class Row(NamedTuple):
    """A row that a finding names.

    Attributes:
      split: Its split.
      record: Its `RowFacts.records`.
      id: Its id, -1 if it has none.
    """

    split: str
    record: int
    id: int


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something that training would suffer from.

    Attributes:
      kind: One of the kinds of findings.
      split: The split; empty if it concerns several.
      message: One sentence: split, numbers, setting, and what to do.
      is_refused: Whether it stops the run; else it is a warning.
      count: The rows concerned.
      rows: The first of them, at most three: rows by themselves, or pairs that belong
        together.
    """

    kind: str
    split: str
    message: str
    is_refused: bool = False
    count: int = 0
    rows: tuple[tuple[Row, ...], ...] = ()


def judge(
    facts: dict[str, RowFacts],
    task: TaskConfig,
    limits: DataGateConfig,
    *,
    gate_split: str,
    thresholds: dict[str, float],
    max_seq_length: int,
    previous: Profile | None = None,
) -> list[Finding]:
    """Judges the rows of all splits; the order of the rows does not matter.

    Args:
      facts: The rows by split.
      task: The classes, or the range of the scores.
      limits: What is refused and what is a warning.
      gate_split: The split that `thresholds` apply to.
      thresholds: Lowest value by metric; 0 and less decide nothing.
      max_seq_length: The tokens that a model sees of a row.
      previous: The training split of the last span; None if there is none.

    Returns:
      The findings, refused ones first.
    """
    raise NotImplementedError
