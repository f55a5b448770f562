"""Loads SavedModels as TensorFlow Serving does, and calls them, in its own process.

    python -I probe.py FILE_DESCRIPTOR

It imports only TensorFlow and tensorflow-text, of any version from 2.12 to 2.21, and
serves requests from a `multiprocessing.connection.Connection`, JSON as bytes. A request
has the name of a function of `OPERATIONS`, its `arguments`, and the `seconds` after
which the process kills itself if its parent has not. The response has the `value` that
the function returned, or the `error`. Inputs are values by name: strings, or bytes as
`{"b64": ...}`, as in TensorFlow Serving's REST API.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_models: dict[str, tuple[Any, Any]] = {}  # session and `SignatureDef`s by name


def main(descriptor: str) -> None:
    """Serves requests until the caller closes the connection.

    Args:
      descriptor: Number of the file descriptor of the connection.
    """
    gc.disable()  # the process is short-lived
    connection = Connection(int(descriptor))
    while True:
        try:
            request = json.loads(connection.recv_bytes())
        except EOFError:
            return
        # Kills the process even if a call never returns to Python.
        signal.alarm(request["seconds"])
        try:
            function = OPERATIONS[request["operation"]]
            response = {"value": function(**request["arguments"])}
        except Exception as error:  # noqa: BLE001 (the caller raises it)
            response = {"error": f"{type(error).__name__}: {error}"}
        signal.alarm(0)
        connection.send_bytes(json.dumps(response).encode())


def find_unknown_ops(model: str | None) -> list[str]:
    """Imports TensorFlow; returns the ops of a SavedModel that are not registered.

    Args:
      model: Directory of a SavedModel; None only imports TensorFlow.
    """
    from tensorflow.python.framework import op_def_registry
    from tensorflow.python.saved_model import loader_impl

    ops: set[str] = set()
    for meta_graph in loader_impl.parse_saved_model(model).meta_graphs if model else ():
        functions = meta_graph.graph_def.library.function
        ops.update(node.op for node in meta_graph.graph_def.node)
        ops.update(node.op for function in functions for node in function.node_def)
        ops.difference_update(function.signature.name for function in functions)
    return sorted(op for op in ops if op_def_registry.get(op) is None)


def import_text() -> None:
    """Imports tensorflow-text, which registers its ops."""
    import tensorflow_text  # noqa: F401


def load(name: str, model: str) -> dict[str, Any]:
    """Loads a SavedModel as TensorFlow Serving does.

    Args:
      name: What other requests name it by.
      model: Its directory.

    Returns:
      `seconds`, and the names of `inputs` and `outputs` by signature.
    """
    import tensorflow as tf

    start = time.perf_counter()
    session = tf.compat.v1.Session(graph=tf.Graph())
    # TensorFlow Serving loads the MetaGraph with this tag.
    tags = [tf.saved_model.SERVING]
    graph = tf.compat.v1.saved_model.load(session, tags, model)
    _models[name] = session, graph.signature_def
    return {
        "seconds": time.perf_counter() - start,
        "signatures": {
            key: {"inputs": list(value.inputs), "outputs": list(value.outputs)}
            for key, value in graph.signature_def.items()
        },
    }


def unload(name: str) -> None:
    """Unloads a model."""
    _models.pop(name)[0].close()


def call(
    model: str, signature: str, inputs: dict[str, list[Any]], outputs: list[str]
) -> dict[str, Any]:
    """Calls a signature with all rows.

    Args:
      model: The name of the model.
      signature: The name of the signature.
      inputs: A value per row by input.
      outputs: The names of the outputs to return.

    Returns:
      `values` by output, and `seconds`.
    """
    session, definitions = _models[model]
    definition = definitions[signature]
    if missing := {*outputs} - {*definition.outputs}:
        raise ValueError(
            f"signature {signature!r} of the {model} returns "
            f"{', '.join(definition.outputs) or 'nothing'}, not {', '.join(missing)}"
        )
    feed = {
        definition.inputs[name].name: list(map(_to_bytes, values))
        for name, values in inputs.items()
    }
    fetched = {name: definition.outputs[name].name for name in outputs}
    start = time.perf_counter()
    values = session.run(fetched, feed)
    seconds = time.perf_counter() - start
    return {
        "values": {name: value.tolist() for name, value in values.items()},
        "seconds": seconds,
    }


def call_in_turn(
    runs: dict[str, dict[str, Any]], warm: bool = True
) -> dict[str, list[dict[str, Any]]]:
    """Calls with each row separately, in turn, so that all have the same conditions.

    Args:
      runs: The arguments of `call` by any name, each with as many rows.
      warm: Whether to call with each row once before: the first call with texts of a
        length is slower.

    Returns:
      The results of `call` for each row by name.
    """
    rows = {key: _split(run) for key, run in runs.items()}
    if warm:
        for calls in rows.values():
            for arguments in calls:
                call(**arguments)
    results: dict[str, list[dict[str, Any]]] = {key: [] for key in runs}
    for number in range(min(map(len, rows.values()))):
        # They alternate in going first.
        for key in sorted(runs, reverse=bool(number % 2)):
            results[key].append(call(**rows[key][number]))
    return results


def _split(run: dict[str, Any]) -> list[dict[str, Any]]:
    count = len(next(iter(run["inputs"].values())))
    return [
        {**run, "inputs": {key: [values[row]] for key, values in run["inputs"].items()}}
        for row in range(count)
    ]


def _to_bytes(value: str | dict[str, str]) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode()


OPERATIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        find_unknown_ops,
        import_text,
        load,
        unload,
        call,
        call_in_turn,
    )
}

if __name__ == "__main__":
    main(*sys.argv[1:])
    # TensorFlow's own shutdown takes a second or two.
    os._exit(0)
