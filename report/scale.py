"""The common axis of values with intervals in a table."""

from __future__ import annotations

import math
from collections.abc import Iterable


class Scale:
    """An axis from a round number to another one.

    Args:
      values: The values on it, of which those that are not finite are ignored.
      step: Its ends are multiples of this; None chooses a power of 10.
      width: Its width in pixels.

    Attributes:
      low: The value at its left end.
      high: The value at its right end.
    """

    height, margin = 22, 8

    def __init__(
        self, values: Iterable[float], step: float | None = None, width: int = 220
    ) -> None:
        self.width = width
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(finite, default=0), max(finite, default=1)
        if step is None:
            step = 10 ** math.floor(math.log10((high - low) or abs(high) or 1))
        # Rounded, as 3 * 0.1 is above 0.3.
        self.low = round(math.floor(round(low / step, 6)) * step, 12)
        self.high = round(math.ceil(round(high / step, 6)) * step, 12)
        if self.low == self.high:
            self.high += step

    def holds(self, value: float | None) -> bool:
        """Returns whether a value is between the ends."""
        return value is not None and self.low <= value <= self.high

    def x(self, value: float) -> str:
        """Returns the horizontal coordinate of a value."""
        share = (value - self.low) / (self.high - self.low)
        return f"{self.margin + share * (self.width - 2 * self.margin):.1f}"
