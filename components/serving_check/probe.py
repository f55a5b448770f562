"""Loads a SavedModel as TensorFlow Serving does, and calls it, in its own process.

    python -I probe.py REQUEST_JSON RESPONSE_JSON

It imports only TensorFlow and tensorflow-text, of any version from 2.12 to 2.21. The
request has:

- `model`, a directory;
- `timeout_seconds`, after which the process kills itself if its parent has not;
- `signatures`, each with `name`, `inputs` (values by name, strings or
  `{"b64": ...}`), `output`, `timed`, and further inputs by any key: `permuted`, and the
  `inputs` of `swapped`;
- `champion`, a directory of another model to time, or null.

Each change of the response is written to disk immediately, so that it survives a crash.
The response has:

- `phase`, and the `error` that ended it;
- `unknown_ops`, the ops that TensorFlow lacks without tensorflow-text;
- `problems` of the signatures;
- `load_seconds`;
- `predictions` by signature: the output's `values`, those of each of the `permuted`
  and `swapped` inputs and, if timed, `values_by_row`, `row_seconds` of each call with
  one row, and `batch_seconds` of a call with all rows;
- `compared_seconds` of each call with one row, of the `model` and of the `champion` in
  turn;
- `column_seconds` of each call with one row of a pair, in turn with all texts and with
  one column empty: `all texts`, `without COLUMN`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

IMPORTING = "importing TensorFlow and tensorflow-text"
READING = "reading the graph"
LOADING = "loading the model"
CALLING = "calling {}"
COMPARING = "timing the model beside the champion (serving.max_latency_ratio)"
SWAPPING = "predicting rows with swapped words (evaluator.group_words)"
PERMUTING = "predicting rows with texts of other rows"
# Keys of `column_seconds`.
ALL_TEXTS = "all texts"
WITHOUT = "without {}"
# Rows that are timed without each column: a call of a large model takes a second.
_COLUMN_ROWS = 16


class Journal:
    """The response on disk.

    Args:
      path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._content: dict[str, Any] = {}

    def record(self, **entries: Any) -> None:
        """Adds entries and replaces the file atomically."""
        self._content.update(entries)
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            json.dump(self._content, file)
        os.replace(f"{self._path}.new", self._path)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Records the phase, and the error that ends it."""
        self.record(phase=name)
        try:
            yield
        except Exception as error:
            self.record(error=f"{type(error).__name__}: {error}")
            raise


def main(request_path: str, response_path: str) -> None:
    """Runs a request.

    Args:
      request_path: The request, JSON.
      response_path: The response, JSON.
    """
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    # Kills the process even if a call never returns to Python.
    signal.alarm(request["timeout_seconds"])
    journal = Journal(response_path)
    with journal.phase(IMPORTING):
        gc.disable()  # the process is short-lived
        import tensorflow  # noqa: F401  takes seconds
    with journal.phase(READING):
        journal.record(unknown_ops=find_unknown_ops(request["model"]))
    with journal.phase(IMPORTING):
        import tensorflow_text  # noqa: F401  registers its ops
    with journal.phase(LOADING):
        start = time.perf_counter()
        session, definitions = load(request["model"])
        journal.record(load_seconds=time.perf_counter() - start)
    problems, predictions = [], {}
    for signature in request["signatures"]:
        name = signature["name"]
        with journal.phase(CALLING.format(name)):
            mismatches = find_mismatches(definitions, signature)
            problems += mismatches
            if not mismatches:
                predictions[name] = call(session, definitions[name], signature)
            journal.record(problems=problems, predictions=predictions)
    if request["champion"] is not None and not problems:
        with journal.phase(COMPARING):
            seconds = compare((session, definitions), request)
            journal.record(compared_seconds=seconds)
    if problems:
        return
    for phase, kind in ((SWAPPING, "swapped"), (PERMUTING, "permuted")):
        for signature in request["signatures"]:
            if not signature[kind]:
                continue
            with journal.phase(phase):
                name = signature["name"]
                run = caller(session, definitions[name], signature["output"])
                predictions[name][kind] = {
                    key: run(inputs["inputs"] if kind == "swapped" else inputs)[0]
                    for key, inputs in signature[kind].items()
                }
                journal.record(predictions=predictions)
                if kind == "permuted":
                    seconds = time_columns((session, definitions), request)
                    journal.record(column_seconds=seconds)


def load(model: str) -> tuple[Any, Any]:
    """Loads a SavedModel as TensorFlow Serving does.

    Returns:
      A session with the model, and its `SignatureDef`s by name.
    """
    import tensorflow as tf

    session = tf.compat.v1.Session(graph=tf.Graph())
    # TensorFlow Serving loads the MetaGraph with this tag.
    tags = [tf.saved_model.SERVING]
    graph = tf.compat.v1.saved_model.load(session, tags, model)
    return session, graph.signature_def


def find_unknown_ops(model: str) -> list[str]:
    """Returns the ops of a SavedModel that are not registered in this process."""
    from tensorflow.python.framework import op_def_registry
    from tensorflow.python.saved_model import loader_impl

    ops: set[str] = set()
    for meta_graph in loader_impl.parse_saved_model(model).meta_graphs:
        functions = meta_graph.graph_def.library.function
        ops.update(node.op for node in meta_graph.graph_def.node)
        ops.update(node.op for function in functions for node in function.node_def)
        ops.difference_update(function.signature.name for function in functions)
    return sorted(op for op in ops if op_def_registry.get(op) is None)


def find_mismatches(definitions: Any, signature: dict[str, Any]) -> list[str]:
    """Returns the differences of a model's signature from the requested signature.

    Args:
      definitions: The SavedModel's `SignatureDef`s by name.
      signature: An entry of the request's `signatures`.
    """
    name = signature["name"]
    if name not in definitions:
        return [f"signature {name!r} is missing; the model has {_list(definitions)}"]
    inputs, outputs = definitions[name].inputs, definitions[name].outputs
    problems = []
    if set(inputs) != set(signature["inputs"]):
        problems.append(
            f"signature {name!r} takes {_list(inputs)}, but "
            f"{_list(signature['inputs'])} will be sent"
        )
    if signature["output"] not in outputs:
        problems.append(
            f"signature {name!r} returns {_list(outputs)}, but "
            f"{signature['output']!r} will be read"
        )
    return problems


def _list(names: Any) -> str:
    shown = (repr(name) for name in sorted(names) if not name.startswith("__"))
    return ", ".join(shown) or "none"


def call(session: Any, definition: Any, signature: dict[str, Any]) -> dict[str, Any]:
    """Calls a signature with all rows; if timed, again and with each row separately.

    Args:
      session: A `tf.compat.v1.Session` with the model.
      definition: The `SignatureDef`.
      signature: An entry of the request's `signatures`.
    """
    run = caller(session, definition, signature["output"])
    inputs = signature["inputs"]
    predictions = {"values": run(inputs)[0]}
    if signature["timed"]:
        predictions["batch_seconds"] = run(inputs)[1]
        count = len(next(iter(inputs.values())))
        by_row = [run(inputs, slice(row, row + 1)) for row in range(count)]
        predictions["values_by_row"] = [values for values, _ in by_row]
        predictions["row_seconds"] = [seconds for _, seconds in by_row]
    return predictions


def caller(
    session: Any, definition: Any, name: str
) -> Callable[..., tuple[Any, float]]:
    """Returns a function that calls a signature.

    It takes the inputs by name, and a slice of the rows if it is not all of them. It
    returns the values of the output and the seconds.

    Args:
      session: A session with the model.
      definition: The `SignatureDef`.
      name: The name of the output.
    """
    output = definition.outputs[name].name

    def run(inputs: dict[str, Any], rows: slice = slice(None)) -> tuple[Any, float]:
        feed = {
            definition.inputs[name].name: [_to_bytes(value) for value in values[rows]]
            for name, values in inputs.items()
        }
        start = time.perf_counter()
        values = session.run(output, feed)
        return values.tolist(), time.perf_counter() - start

    return run


def compare(model: tuple[Any, Any], request: dict[str, Any]) -> dict[str, list[float]]:
    """Times the model and the champion in turn, so that both have the same conditions.

    Args:
      model: The model that was checked, as `load` returns it.
      request: The request.

    Returns:
      The seconds of each row by model.

    Raises:
      ValueError: The champion has other signatures.
    """
    signature = _timed(request)
    champion = load(request["champion"])
    if mismatches := find_mismatches(champion[1], signature):
        raise ValueError(
            f"the champion cannot be called: {'; '.join(mismatches)}. To push without "
            "a comparison, set serving.max_latency_ratio=null"
        )
    inputs, runs = signature["inputs"], {}
    for key, (session, definitions) in {"model": model, "champion": champion}.items():
        run = caller(session, definitions[signature["name"]], signature["output"])
        runs[key] = functools.partial(run, inputs)
    return _time_in_turn(runs, len(next(iter(inputs.values()))))


def time_columns(
    model: tuple[Any, Any], request: dict[str, Any]
) -> dict[str, list[float]]:
    """Times the model with all texts and without those of each column, in turn.

    Args:
      model: The model that was checked, as `load` returns it.
      request: The request.

    Returns:
      The seconds of each row, by what was sent.
    """
    session, definitions = model
    signature = _timed(request)
    inputs = signature["inputs"]
    run = caller(session, definitions[signature["name"]], signature["output"])
    runs = {ALL_TEXTS: functools.partial(run, inputs)}
    for column, texts in inputs.items():
        emptied = {**inputs, column: [""] * len(texts)}
        runs[WITHOUT.format(column)] = functools.partial(run, emptied)
    count = len(next(iter(inputs.values())))
    return _time_in_turn(runs, min(count, _COLUMN_ROWS))


def _timed(request: dict[str, Any]) -> dict[str, Any]:
    (signature,) = (entry for entry in request["signatures"] if entry["timed"])
    return signature


def _time_in_turn(
    runs: Mapping[str, Callable[..., tuple[Any, float]]], count: int
) -> dict[str, list[float]]:
    rows = [slice(row, row + 1) for row in range(count)]
    for run in runs.values():
        for row in rows:  # the first call with texts of a length is slower
            run(row)
    seconds: dict[str, list[float]] = {key: [] for key in runs}
    for number, row in enumerate(rows):
        # Each is first every other time.
        for key in sorted(runs, reverse=bool(number % 2)):
            seconds[key].append(runs[key](row)[1])
    return seconds


def _to_bytes(value: str | dict[str, str]) -> bytes:
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode()


if __name__ == "__main__":
    main(*sys.argv[1:])
    # The response is on disk; TensorFlow's own shutdown takes a second or two.
    os._exit(0)
