"""The terminal of all commands."""

from __future__ import annotations

from typing import Any

import rich.console


class Console(rich.console.Console):
    """A console that prints text as it is.

    Paths, texts and names of users may look like the markup or the emoji codes of rich:
    `[v1]`, `rows.csv:100:`. Styled text is a `rich.text.Text`.

    Args:
      **options: Further arguments of rich's `Console`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)
