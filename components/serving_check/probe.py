"""Loads a SavedModel as TensorFlow Serving does and asks it, alone in a process.

    python -I probe.py REQUEST_JSON RESPONSE_JSON

It imports TensorFlow and tensorflow-text only, of any version from 2.12 to 2.21. The
request has `model`, a directory; `timeout_seconds`, after which the process ends itself
if its parent did not; and `signatures`, each with `name`, `inputs` (values by name,
strings or `{"b64": ...}`), `output`, and `timed`. The response is on disk at every
moment, so that a crash cannot take it along:

- `phase`, and the `error` that ended it;
- `unknown_ops`, which TensorFlow does not have without tensorflow-text;
- `problems`, of the signatures;
- `load_seconds`, and by signature `answers`: the output's `values`, and of a timed one
  `values_by_one`, `call_seconds` of one row each, and `batch_seconds` of all.
"""

from __future__ import annotations

import base64
import contextlib
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

IMPORTING = "importing TensorFlow and tensorflow-text"
READING = "reading the graph"
LOADING = "loading the model"
ANSWERING = "answering {}"

# The metagraph that TensorFlow Serving looks for.
_TAG = "serve"


class Journal:
    """The response, written anew at each change."""

    def __init__(self, path: str) -> None:
        """Keeps the path."""
        self._path = path
        self._content: dict[str, Any] = {}

    def record(self, **entries: Any) -> None:
        """Adds entries; whoever reads the file meanwhile sees it whole."""
        self._content.update(entries)
        with open(f"{self._path}.new", "w") as file:
            json.dump(self._content, file)
        os.replace(f"{self._path}.new", self._path)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Names what goes on, and keeps the error that ends it."""
        self.record(phase=name)
        try:
            yield
        except Exception as error:
            self.record(error=f"{type(error).__name__}: {error}")
            raise


def main(request_path: str, response_path: str) -> None:
    """Answers a request.

    Args:
      request_path: The request, JSON.
      response_path: Where the response goes.
    """
    with open(request_path) as file:
        request = json.load(file)
    # Ends even a process that no longer comes back to Python.
    signal.alarm(request["timeout_seconds"])
    journal = Journal(response_path)
    with journal.phase(IMPORTING):
        gc.disable()  # for as short a life, searching for garbage is a waste
        import tensorflow as tf
    with journal.phase(READING):
        journal.record(unknown_ops=find_unknown_ops(request["model"]))
    with journal.phase(IMPORTING):
        import tensorflow_text  # noqa: F401  registers its ops
    with journal.phase(LOADING):
        start = time.perf_counter()
        session = tf.compat.v1.Session(graph=tf.Graph())
        graph = tf.compat.v1.saved_model.load(session, [_TAG], request["model"])
        journal.record(load_seconds=time.perf_counter() - start)
    problems, answers = [], {}
    for wanted in request["signatures"]:
        name = wanted["name"]
        with journal.phase(ANSWERING.format(name)):
            found = find_problems(graph.signature_def, wanted)
            problems += found
            if not found:
                answers[name] = ask(session, graph.signature_def[name], wanted)
            journal.record(problems=problems, answers=answers)


def find_unknown_ops(model: str) -> list[str]:
    """Returns the ops of a SavedModel that this process does not know yet."""
    from tensorflow.python.framework import op_def_registry
    from tensorflow.python.saved_model import loader_impl

    ops: set[str] = set()
    for meta_graph in loader_impl.parse_saved_model(model).meta_graphs:
        functions = meta_graph.graph_def.library.function
        ops.update(node.op for node in meta_graph.graph_def.node)
        ops.update(node.op for function in functions for node in function.node_def)
        ops.difference_update(function.signature.name for function in functions)
    return sorted(op for op in ops if op_def_registry.get(op) is None)


def find_problems(signatures: Any, wanted: dict[str, Any]) -> list[str]:
    """Says in what a signature is not the one that is wanted.

    Args:
      signatures: The SavedModel's, by name.
      wanted: An entry of the request's `signatures`.
    """
    name = wanted["name"]
    if name not in signatures:
        return [f"signature {name!r} is missing; the model has {_list(signatures)}"]
    inputs, outputs = signatures[name].inputs, signatures[name].outputs
    problems = []
    if set(inputs) != set(wanted["inputs"]):
        problems.append(
            f"signature {name!r} takes {_list(inputs)}, but "
            f"{_list(wanted['inputs'])} will be sent"
        )
    if wanted["output"] not in outputs:
        problems.append(
            f"signature {name!r} gives {_list(outputs)}, but "
            f"{wanted['output']!r} will be read"
        )
    return problems


def _list(names: Any) -> str:
    shown = (repr(name) for name in sorted(names) if not name.startswith("__"))
    return ", ".join(shown) or "none"


def ask(session: Any, signature: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """Sends all rows at once and, if it is to be timed, once more and one by one.

    Args:
      session: A `tf.compat.v1.Session` with the model.
      signature: The `SignatureDef`.
      wanted: An entry of the request's `signatures`.
    """
    inputs = {
        signature.inputs[name].name: [_to_bytes(value) for value in values]
        for name, values in wanted["inputs"].items()
    }
    output = signature.outputs[wanted["output"]].name

    def call(rows: slice) -> tuple[Any, float]:
        feed = {name: values[rows] for name, values in inputs.items()}
        start = time.perf_counter()
        values = session.run(output, feed)
        return values.tolist(), time.perf_counter() - start

    everything = slice(None)
    answer = {"values": call(everything)[0]}
    if wanted["timed"]:
        answer["batch_seconds"] = call(everything)[1]
        count = len(next(iter(inputs.values())))
        calls = [call(slice(row, row + 1)) for row in range(count)]
        answer["values_by_one"] = [values for values, _ in calls]
        answer["call_seconds"] = [seconds for _, seconds in calls]
    return answer


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    main(*sys.argv[1:])
    # All is on disk; TensorFlow would take a second or two to clean itself up.
    os._exit(0)
