"""One `run_fn` of two steps, from its call to the end of step 1 and to its return."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from benchmarks import peer

STEPS = 2


def prepare(settings: peer.Settings) -> Callable[[int], peer.Figures]:
    """Gets ready; see `benchmarks.first_step` for the settings."""
    return lambda _: peer.in_new_process(measure, settings)


def measure(settings: peer.Settings) -> peer.Figures:
    """Trains two steps and exports, in this process, which did nothing before.

    Args:
      settings: Those of `prepare`.

    Returns:
      Seconds: `imports` before `run_fn`; `first_step` from its call to the end of step
      1; `evaluation` of the evaluation split; `export`; `predictions` of all splits
      but training; `run_fn` in all.
    """
    began = time.perf_counter()
    from modules import environment
    from modules.training import actions, loop, run_fn

    if not settings["autograph_is_kept_out"]:
        environment.exempt_keras_from_autograph = lambda: None
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
    """Returns what TFX's Trainer would call `run_fn` with."""
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
