"""What a training from one seed came to."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Result:
    """What one training came to.

    Attributes:
      seed: Its seed.
      steps: Steps it took.
      best_step: The step of the best evaluation.
      metrics: Of that evaluation, on the evaluation split.
      stopped: Why it ended before its last step, or None.
    """

    seed: int
    steps: int
    best_step: int
    metrics: dict[str, float]
    stopped: str | None = None
