"""The terminal of all commands."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any

import click
import rich.console

# Packages whose warnings a user can act on, also where TensorFlow's are hidden.
_LOGGERS = ("pipeline.runs", "pipeline.releases", "modules.served_versions")


class Console(rich.console.Console):
    """A console that prints text as it is.

    Paths, texts and names of users may look like the markup or the emoji codes of rich:
    `[v1]`, `rows.csv:100:`. Styled text is a `rich.text.Text`.

    Args:
      **options: Further arguments of rich's `Console`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)


def print_json(content: Any) -> None:
    """Prints JSON for a script, in ASCII: it is valid in any encoding of stdout."""
    click.echo(json.dumps(content, indent=1, default=str))


@contextlib.contextmanager
def printing_warnings() -> Iterator[None]:
    """Prints our warnings on stderr as long as the context is open, each of them once.

    Several readers of a command may meet the same damaged file.
    """
    root = logging.getLogger()
    # Libraries add one when they log during their import.
    others = [h for h in root.handlers if type(h) is logging.StreamHandler]
    handler = _Warnings()
    for other in others:
        root.removeHandler(other)
    root.addHandler(handler)
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for other in others:
            root.addHandler(other)


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.levelname}:{record.name}:{record.getMessage()}"
        if record.name.startswith(_LOGGERS):
            text = f"warning: {record.getMessage()}"
        if text not in self._printed:
            self._printed.add(text)
            Console(stderr=True).print(text, highlight=False, soft_wrap=True)
