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
      class_name: The predicted class; empty for a score.
      time: When it was predicted, in Unix seconds.
      version: The version that predicted it; empty if that is unknown.
    """

    texts: Texts
    outputs: tuple[float, ...]
    class_name: str = ""
    time: int = 0
    version: str = ""
