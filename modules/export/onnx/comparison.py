"""Whether an exported model predicts what the pushed one does."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from contracts.versions.exported_model import CLASS_ID, LABELS, PROBABILITIES, SCORE

_TOLERANCE = 1e-4  # of a probability, or of a score relative to the largest above 1


@dataclasses.dataclass(frozen=True)
class Difference:
    """How predictions of the same rows differ.

    Attributes:
      largest: The largest difference of a probability or score; NaN if one is NaN.
      allowed: The largest that rounding in float32 explains.
      changes: The rows with another class or other labels; None for scores.
    """

    largest: float
    allowed: float
    changes: int | None

    @property
    def is_rounding(self) -> bool:
        """Whether both models predict the same but for rounding in float32."""
        return self.largest <= self.allowed and not self.changes


def compare(
    served: Mapping[str, np.ndarray], exported: Mapping[str, np.ndarray]
) -> Difference:
    """Compares the outputs of the signature `serving_default` with others.

    Args:
      served: The outputs of at least one row.
      exported: Those of `portable.model.PortableModel.predict` for the same rows.
    """
    if SCORE in served:
        allowed = _TOLERANCE * max(float(np.abs(served[SCORE]).max()), 1)
        return Difference(_largest(served, exported, SCORE), allowed, None)
    predicted = LABELS if LABELS in served else CLASS_ID
    rows = len(served[predicted])
    is_changed = (served[predicted] != exported[predicted]).reshape(rows, -1)
    return Difference(
        largest=_largest(served, exported, PROBABILITIES),
        allowed=_TOLERANCE,
        changes=int(is_changed.any(axis=1).sum()),
    )


def _largest(
    served: Mapping[str, np.ndarray], exported: Mapping[str, np.ndarray], name: str
) -> float:
    return float(np.abs(served[name] - exported[name]).max())
