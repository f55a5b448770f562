"""Runs a recipe on this machine."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from modules import environment
from modules.errors import UsageError
from pipeline.api.looking import Run
from pipeline.api.recipes import Recipe
from pipeline.console import Console, OutputStream, log_loss


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
            f"run() was called in the thread {threading.current_thread().name}, but "
            "only the main thread can stop a run on Ctrl-C and save its checkpoint; "
            "call it there, or start a process with `bert-pipeline run`",
            "E-run-thread",
        )
    if not isinstance(recipe, Recipe):
        recipe = Recipe(recipe)
    console = Console(file=sys.stdout)
    environment.set_up()
    from pipeline.local.run import run_locally

    with _without_arguments(), _output_to_log():
        ended = run_locally(recipe.settings, console, verbose=verbose)
    return Run(ended.paths, ended.record)


@contextlib.contextmanager
def _without_arguments() -> Iterator[None]:
    """Hides the arguments of this process, which TFX's Beam executors would parse."""
    arguments = sys.argv[1:]
    del sys.argv[1:]
    try:
        yield
    finally:
        sys.argv[1:] = arguments


@contextlib.contextmanager
def _output_to_log() -> Iterator[None]:
    """Writes what Python prints to the descriptors, which a run redirects to its log.

    In a notebook, `sys.stdout` does not write to them.
    """
    options = {"encoding": "utf-8", "errors": "backslashreplace"}
    with (
        OutputStream(1, log_loss, **options) as stdout,
        OutputStream(2, log_loss, **options) as stderr,
        contextlib.redirect_stdout(stdout),
        contextlib.redirect_stderr(stderr),
    ):
        yield
