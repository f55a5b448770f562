"""A row that was predicted, as `monitor` compares it."""

from __future__ import annotations

import dataclasses

Texts = tuple[bytes, ...]


@dataclasses.dataclass(frozen=True)
class PredictedRow:
    """A row with its prediction.

    Attributes:
      texts: Its texts in the order of the task.
      outputs: The probabilities of the classes, or the score alone.
      class_name: The predicted class; empty for a score, and for several labels.
      time: When it was predicted, in Unix seconds.
      version: The version that predicted it; empty if that is unknown.
      labels: 1 for each predicted label of several, and 0; empty for a class or score.
    """

    texts: Texts
    outputs: tuple[float, ...]
    class_name: str = ""
    time: int = 0
    version: str = ""
    labels: tuple[int, ...] = ()
