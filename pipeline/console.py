"""The terminal of all commands, which may be gone before a command ends."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
import rich.console
from rich.console import RenderableType
from rich.live import Live

from pipeline import exit_status

_STDIN, _STDOUT, _STDERR = range(3)
# Packages whose warnings a user can act on, also where TensorFlow's are hidden.
_LOGGERS = (
    "contracts.storage.file_lock",
    "contracts.versions.served_versions",
    "pipeline.operations",
)

logger = logging.getLogger(__name__)


class Console(rich.console.Console):
    """A console that prints text as it is.

    Paths, texts and names of users may look like the markup or the emoji codes of rich:
    `[v1]`, `rows.csv:100:`. Styled text is a `rich.text.Text`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    @property
    def command(self) -> str:
        """What a user enters to run the same again."""
        return shlex.join(sys.orig_argv)

    def live(self, content: RenderableType) -> Live | None:
        """Returns a display that updates in place; None if that is impossible."""
        if not self.is_interactive:
            return None
        return Live(
            content,
            console=self,
            refresh_per_second=8,
            # The output of this process is in the log already.
            redirect_stdout=False,
            redirect_stderr=False,
        )


class OutputStream(io.TextIOWrapper):
    """A text stream that discards its text after the first write that fails.

    Nobody reads a closed pipe or a closed terminal, and a disk may be full.

    Args:
      descriptor: The file descriptor, which the stream does not close.
      on_loss: Called with the error of the first write that fails.
    """

    def __init__(
        self, descriptor: int, on_loss: Callable[[OSError], None], **options: Any
    ) -> None:
        file = io.FileIO(descriptor, "w", closefd=False)
        super().__init__(io.BufferedWriter(file), **options)
        self._on_loss = on_loss

    def write(self, text: str) -> int:
        """Writes a text."""
        try:
            return super().write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        """Writes what is buffered."""
        try:
            super().flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        # What is buffered is written again.
        _discard(self.fileno())
        self._on_loss(error)


def end_command(error: OSError) -> None:
    """Ends a command whose stdout is lost, without a message if it is a pipe."""
    if isinstance(error, BrokenPipeError):
        sys.exit(exit_status.CLOSED_PIPE)
    print(f"error: standard output: {error.strerror}", file=sys.stderr)
    sys.exit(exit_status.FAILURE)


def log_loss(error: OSError) -> None:
    """Logs why stdout is lost; a run continues."""
    logger.warning("standard output is lost: %s; the run continues", error.strerror)


def guard_streams(on_loss: Callable[[OSError], None] = end_command) -> None:
    """Prepares the standard streams of this process for a lost terminal.

    A closed stream discards its text: Python has no object for it, and the next file
    that is opened would get its descriptor, and with it the output of C++. What stderr
    cannot write is discarded.

    Args:
      on_loss: Called with the error of the first write to stdout that fails.
    """
    if sys.stdin is None:
        _discard(_STDIN)
    if sys.stdout is None:
        _discard(_STDOUT)
        sys.stdout = OutputStream(_STDOUT, on_loss)
    elif sys.stdout is sys.__stdout__:  # not that of a test
        sys.stdout = _guarded(sys.stdout, on_loss)
    if sys.stderr is None:
        _discard(_STDERR)
        sys.stderr = OutputStream(_STDERR, _ignore)
    elif sys.stderr is sys.__stderr__:
        sys.stderr = _guarded(sys.stderr, _ignore)


@contextlib.contextmanager
def open_terminal() -> Iterator[OutputStream]:
    """Opens a copy of stdout for a run, which redirects its own stdout to its log.

    The run continues if either cannot be written, and logs the reason.
    """
    copy = os.dup(sys.stdout.fileno())
    with (
        contextlib.closing(io.FileIO(copy, "w")),
        OutputStream(
            copy, log_loss, encoding=sys.stdout.encoding, errors=sys.stdout.errors
        ) as terminal,
        contextlib.redirect_stdout(_guarded(sys.stdout, log_loss)),
    ):
        yield terminal


def _guarded(stream: Any, on_loss: Callable[[OSError], None]) -> OutputStream:
    return OutputStream(
        stream.fileno(),
        on_loss,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _discard(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null == descriptor:  # the first free one, because it was closed
        os.set_inheritable(descriptor, True)  # as the other two, for child processes
    else:
        os.dup2(null, descriptor)
        os.close(null)


def _ignore(error: OSError) -> None:
    del error


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
    handler = WarningPrinter()
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


class WarningPrinter(logging.Handler):
    """Prints warnings on stderr, each of them once."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a warning."""
        text = f"{record.levelname}:{record.name}:{record.getMessage()}"
        if record.name.startswith(_LOGGERS):
            text = f"warning: {record.getMessage()}"
        if text not in self._printed:
            self._printed.add(text)
            Console(stderr=True).print(text, highlight=False, soft_wrap=True)
