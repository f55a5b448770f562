"""`run_fn` with two steps: seconds to the end of step 1, and of what follows."""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

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
    """Trains two steps and exports, in a new process.

    Args:
      settings: Those of `prepare`.

    Returns:
      Seconds: `imports` before `run_fn`; `first_step` from the call of `run_fn` to the
      end of step 1; `evaluation` of the evaluation split; `export`; `predictions` of
      all splits but training; `run_fn` in all.
    """
    began = time.perf_counter()
    from modules import environment
    from modules.training import actions, loop, run_fn

    if not settings["autograph_is_kept_out"]:
        environment.exempt_from_autograph = lambda: None
    ended: dict[str, float] = {}
    figures: dict[str, float] = {"imports": time.perf_counter() - began}
    _time_calls(run_fn, "_export", figures, "export")
    _time_calls(run_fn, "predict", figures, "predictions")
    _time_calls(loop.orbit.Controller, "evaluate", figures, "evaluation")
    progress = actions.Progress.__call__

    def first_step(self: actions.Progress, output: dict[str, Any]) -> None:
        ended.setdefault("first_step", time.perf_counter())
        progress(self, output)

    actions.Progress.__call__ = first_step  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as directory:
        arguments = _arguments(settings, directory)
        began = time.perf_counter()
        run_fn.run_fn(arguments)
    figures["run_fn"] = time.perf_counter() - began
    figures["first_step"] = ended["first_step"] - began
    return figures


def _time_calls(owner: Any, name: str, figures: dict[str, float], figure: str) -> None:
    function = getattr(owner, name)
    figures[figure] = 0.0

    @functools.wraps(function)
    def timed(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        result = function(*arguments, **options)
        figures[figure] += time.perf_counter() - began
        return result

    setattr(owner, name, timed)


def _arguments(settings: peer.Settings, directory: str) -> SimpleNamespace:
    """Returns the arguments that TFX's Trainer passes to `run_fn`."""
    from pipeline.config.recipe import load_config

    config = load_config(settings["config"])
    trainer = config.trainer.model_dump()
    trainer |= {"epochs": 1, "steps_per_epoch": STEPS, "steps_per_loop": 1}
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
        eval_files=[f"{settings['examples']}/Split-{s}/*" for s in ("eval", "test")],
        transform_output=settings["transform_graph"],
        base_model=None,
        model_run_dir=f"{directory}/record",
        serving_model_dir=f"{directory}/model",
    )


if __name__ == "__main__":
    peer.serve(prepare)
