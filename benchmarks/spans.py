"""Runs a module of any checkout, and records where its process spends its time.

    python benchmarks/spans.py SPANS.json MODULE [ARGUMENT ...]

runs `python -m MODULE ARGUMENT ...` of the current directory, and writes when it
imported, traced TensorFlow functions, saved and loaded SavedModels, and collected
garbage. The hooks are here, and none in the code that is measured. It imports nothing
but the standard library until that code does.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import importlib._bootstrap as bootstrap
import json
import os
import runpy
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

IMPORT, TRACE, SAVE, LOAD, COLLECT = "import", "trace", "save", "load", "collect"

# What TensorFlow calls for each, whichever of its public names is used.
_TENSORFLOW = (
    ("tensorflow.python.framework.func_graph", "func_graph_from_py_func", TRACE),
    ("tensorflow.python.saved_model.save", "save_and_return_nodes", SAVE),
    ("tensorflow.python.saved_model.load", "load_partial", LOAD),
)


@dataclasses.dataclass
class _Open:
    """A span that has not ended.

    Attributes:
      kind: What it is called.
      within: Seconds of the spans in it.
    """

    kind: str
    within: float = 0.0


class Recorder:
    """Keeps spans; a span's seconds are its own, without those of spans in it.

    Attributes:
      spans: Kind, start (seconds since the epoch) and seconds of each.
    """

    def __init__(self) -> None:
        """Starts without spans."""
        self.spans: list[tuple[str, float, float]] = []
        self._local = threading.local()
        self._collecting = 0.0

    def wrap(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        """Returns a function that does the same and leaves a span.

        Args:
          function: What is timed. Called by itself, it leaves one span.
          kind: What the span is called.
        """

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            open_spans = self._open()
            if open_spans and open_spans[-1].kind == kind:
                return function(*args, **kwargs)
            span = _Open(kind)
            open_spans.append(span)
            started, clock = time.time(), time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                seconds = time.perf_counter() - clock
                open_spans.pop()
                self.spans.append((kind, started, seconds - span.within))
                if open_spans:
                    open_spans[-1].within += seconds

        return timed

    def attach(self) -> None:
        """Records what this process does from here on."""
        find_and_load = self.wrap(bootstrap._find_and_load, IMPORT)  # type: ignore[attr-defined]
        missing = list(_TENSORFLOW)

        def import_(name: str, *args: Any) -> Any:
            module = find_and_load(name, *args)
            for hook in [hook for hook in missing if hook[0] in sys.modules]:
                self._hook(missing, hook)
            return module

        bootstrap._find_and_load = import_  # type: ignore[attr-defined]
        gc.callbacks.append(self._collect)

    def total(self, kind: str) -> float:
        """Returns the seconds of all spans of a kind."""
        return sum(seconds for name, _, seconds in self.spans if name == kind)

    def _hook(
        self, missing: list[tuple[str, str, str]], hook: tuple[str, str, str]
    ) -> None:
        module, name, kind = hook
        function = getattr(sys.modules[module], name, None)
        if function is not None:  # its module is whole
            setattr(sys.modules[module], name, self.wrap(function, kind))
            missing.remove(hook)

    def _collect(self, phase: str, info: dict[str, int]) -> None:
        del info
        if phase == "start":
            self._collecting = time.perf_counter()
        else:
            seconds = time.perf_counter() - self._collecting
            self.spans.append((COLLECT, time.time() - seconds, seconds))

    def _open(self) -> list[_Open]:
        if not hasattr(self._local, "open"):
            self._local.open = []
        open_spans: list[_Open] = self._local.open
        return open_spans


def main() -> None:
    """Runs the command line."""
    path, module, *arguments = sys.argv[1:]
    recorder = Recorder()
    sys.path[0] = os.getcwd()
    sys.argv = [module, *arguments]
    recorder.attach()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        Path(path).write_text(json.dumps(recorder.spans), encoding="utf-8")


if __name__ == "__main__":
    main()
