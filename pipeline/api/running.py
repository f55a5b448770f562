"""Runs a recipe on this machine."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import UsageError
from modules import environment
from pipeline.api.arguments import checked
from pipeline.api.looking import Run
from pipeline.api.notebook import NotebookConsole, is_notebook
from pipeline.api.recipes import Recipe
from pipeline.console import Console, OutputStream, log_loss, open_terminal


@checked
def run(recipe: Recipe | str | Path, *, verbose: bool = False) -> Run:
    """Runs the whole pipeline on this machine, as the command `run` does.

    Progress is shown on stdout, and in a notebook below the cell. Ctrl-C, or the
    interruption of the kernel, stops the run and saves a checkpoint of the training;
    the same call resumes it.

    Args:
      recipe: The recipe, or its file.
      verbose: Whether to show the log of TFX, too.

    Returns:
      The run. If its model was refused, `pushed` is None and `reason` says why.

    Raises:
      DataRefusedError: The data were refused.
      UsageError: A source, the data or a setting is invalid, another run uses the
        output directory, or the call is not in the main thread.
      KeyboardInterrupt: Ctrl-C stopped the run.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            got=f"run() was called in {threading.current_thread().name}, but only the "
            "main thread can save a checkpoint on Ctrl-C",
            advice="call it there, or start a process with `bert-pipeline run`",
            name="E-run-thread",
        )
    if not isinstance(recipe, Recipe):
        recipe = Recipe(recipe)
    environment.set_up()
    from pipeline.local.run import run_locally

    with _hiding_arguments(), _opening_console() as console:
        ended = run_locally(recipe.settings, console, verbose=verbose)
    return Run(ended.paths, ended.record)


@contextlib.contextmanager
def _hiding_arguments() -> Iterator[None]:
    """Hides the arguments of this process, which TFX's Beam executors would parse."""
    arguments = sys.argv[1:]
    del sys.argv[1:]
    try:
        yield
    finally:
        sys.argv[1:] = arguments


@contextlib.contextmanager
def _opening_console() -> Iterator[Console]:
    """Opens a console that is not redirected when a run redirects its descriptors."""
    if _has_descriptor(sys.stdout):
        with open_terminal() as terminal:
            yield Console(file=terminal, force_interactive=terminal.isatty())
        return
    console = (NotebookConsole if is_notebook() else Console)(file=sys.stdout)
    # What libraries print goes to the descriptors, and so to the log. Their log
    # handlers may keep these streams, so that they are not closed.
    with contextlib.redirect_stdout(_open(1)), contextlib.redirect_stderr(_open(2)):
        # In a notebook TensorFlow logs to the stdout that it was imported with.
        streams = {
            handler: handler.setStream(sys.stderr)
            for handler in logging.getLogger("tensorflow").handlers
            if isinstance(handler, logging.StreamHandler)
        }
        try:
            yield console
        finally:
            for handler, stream in streams.items():
                if stream is not None:  # it was another one
                    handler.setStream(stream)


def _has_descriptor(stream: object) -> bool:
    """Returns whether a stream writes to a file descriptor, as the terminal's does."""
    if not isinstance(stream, io.TextIOWrapper):  # of a notebook, or a StringIO
        return False
    with contextlib.suppress(OSError):
        return stream.fileno() >= 0
    return False


@functools.cache
def _open(descriptor: int) -> OutputStream:
    options = {"encoding": "utf-8", "errors": "backslashreplace"}
    return OutputStream(descriptor, log_loss, line_buffering=True, **options)
