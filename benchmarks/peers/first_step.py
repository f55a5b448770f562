"""`run_fn` with two steps: the seconds to the end of step 1 and of the later parts."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import glob
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

from benchmarks import peer

STEPS = 2


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Returns the round; see `benchmarks.first_step` for the settings."""

    def run_round(number: int) -> peer.Figures:
        # TensorFlow is imported, and functions are traced, once in a process.
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(measure, settings).result()

    return run_round


def measure(settings: peer.Settings) -> peer.Figures:
    """Trains two steps and exports.

    Args:
      settings: The settings of `prepare`.

    Returns:
      Seconds: `imports` before `run_fn`; `first_step` from the call of `run_fn` to the
      end of step 1; `evaluation` of the evaluation split; `export`; `predictions` of
      all splits but training; `run_fn` in all.
    """
    began = time.perf_counter()
    # Imported here to measure it.
    from modules import environment
    from modules.training import loop, run_fn

    ended: dict[str, float] = {}
    figures: dict[str, float] = {"imports": time.perf_counter() - began}
    progress = loop.Progress.__call__

    def first_step(self: loop.Progress, output: dict[str, Any]) -> None:
        ended.setdefault("first_step", time.perf_counter())
        progress(self, output)

    with contextlib.ExitStack() as stack:
        for owner, name, replacement in (
            (run_fn, "_export", _timed(run_fn._export, figures, "export")),
            (run_fn, "predict", _timed(run_fn.predict, figures, "predictions")),
            (
                loop.orbit.Controller,
                "evaluate",
                _timed(loop.orbit.Controller.evaluate, figures, "evaluation"),
            ),
            (loop.Progress, "__call__", first_step),
        ):
            stack.enter_context(mock.patch.object(owner, name, replacement))
        if not settings["autograph_is_kept_out"]:
            nothing = mock.patch.object(environment, "exempt_from_autograph")
            stack.enter_context(nothing)
        arguments = _arguments(
            settings, stack.enter_context(tempfile.TemporaryDirectory())
        )
        began = time.perf_counter()
        run_fn.run_fn(arguments)
    figures["run_fn"] = time.perf_counter() - began
    figures["first_step"] = ended["first_step"] - began
    return figures


def _timed(
    function: Callable[..., Any], figures: dict[str, float], figure: str
) -> Callable[..., Any]:
    """Returns a function that adds the seconds of its calls to a figure."""
    figures[figure] = 0.0

    @functools.wraps(function)
    def timed(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        result = function(*arguments, **options)
        figures[figure] += time.perf_counter() - began
        return result

    return timed


def _arguments(settings: peer.Settings, directory: str) -> SimpleNamespace:
    """Returns the arguments that TFX's Trainer passes to `run_fn`."""
    # At the top, it would import pydantic before `measure` starts to measure imports.
    from pipeline.config.recipe import load_config

    config = load_config(settings["config"])
    trainer = config.trainer.model_dump()
    trainer |= {"epochs": 1, "steps_per_epoch": STEPS, "steps_per_loop": 1}
    splits = sorted(glob.glob(f"{settings['examples']}/Split-*"))
    return SimpleNamespace(
        hyperparameters=trainer,
        custom_config={
            "task": config.task.model_dump(),
            "max_seq_length": config.preprocessing.max_seq_length,
            "encoder": settings["encoder"],
            "encoder_fingerprint": "",
            "code_fingerprint": "",
            "serving_precision": config.serving.precision,
            "checkpoints": f"{directory}/checkpoints",
        },
        train_files=[f"{settings['examples']}/Split-train/*"],
        eval_files=[f"{split}/*" for split in splits if not split.endswith("-train")],
        transform_output=settings["transform_graph"],
        base_model=None,
        model_run_dir=f"{directory}/record",
        serving_model_dir=f"{directory}/model",
    )


if __name__ == "__main__":
    peer.serve(prepare)
