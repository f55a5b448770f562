"""Calls a model in a clean process and compares its predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from components.serving_check import text_ops
from components.serving_check.model_process import (
    CANDIDATE,
    ModelError,
    ModelProcess,
)
from components.serving_check.request import ServingRequest, SignatureRequest
from contracts.errors import named
from contracts.records.serving import ServingReport


def check_model(
    model: str, request: ServingRequest, process: ModelProcess
) -> ServingReport:
    """Loads a copy of a model in a clean process and calls its signatures.

    Args:
      model: Directory of the SavedModel, local or remote.
      request: The request to send.
      process: The process, in its context.

    Returns:
      The report. A model that fails, crashes or hangs is not blessed.

    Raises:
      RuntimeError: TensorFlow or tensorflow-text cannot be imported.
    """
    limits = request.settings.serving
    text_version = text_ops.text_version(limits.tf_serving_version)
    unknown_ops, problems, load_seconds = [], [], None
    failures, predictions = [], dict[str, Any]()
    process.limit(limits.timeout_seconds)
    try:
        unknown_ops = process.find_unknown_ops(CANDIDATE, model)
        loaded = process.load(CANDIDATE, model)
        load_seconds = loaded["seconds"]
        for signature in request.signatures:
            mismatches = _find_mismatches(loaded["signatures"], signature)
            problems += mismatches
            if not mismatches:
                predictions[signature.name] = _call(process, signature)
    except ModelError as error:
        failures = [str(error)]
    reasons = text_ops.find_missing(unknown_ops, limits.tf_serving_version)
    reasons += [named(problem, "E-serving-output") for problem in problems]
    reasons += [named(failure, "E-serving-failed") for failure in failures]
    max_skew: dict[str, float | None] = {}
    for signature in request.signatures:
        max_skew[signature.name] = None
        if signature.name in predictions:
            skew, differences = _compare(
                signature, predictions[signature.name], request
            )
            max_skew[signature.name] = skew
            reasons += differences
    return ServingReport(
        reasons=reasons,
        rows=len(request.ids),
        max_skew=max_skew,
        load_seconds=load_seconds,
        peak_memory_bytes=process.peak_memory_bytes,
        tf_serving_version=limits.tf_serving_version,
        text_version=text_version,
        **_measure(predictions),
    )


def _find_mismatches(
    signatures: dict[str, dict[str, list[str]]], signature: SignatureRequest
) -> list[str]:
    """Returns the differences of a model's signature from the requested signature."""
    name = signature.name
    if name not in signatures:
        return [f"signature {name!r} is missing; the model has {_list(signatures)}"]
    inputs, outputs = signatures[name]["inputs"], signatures[name]["outputs"]
    problems = []
    if set(inputs) != set(signature.inputs):
        problems.append(
            f"signature {name!r} takes {_list(inputs)}, but {_list(signature.inputs)} "
            "will be sent"
        )
    if signature.output not in outputs:
        problems.append(
            f"signature {name!r} returns {_list(outputs)}, but {signature.output!r} "
            "will be read"
        )
    return problems


def _list(names: Iterable[str]) -> str:
    shown = (repr(name) for name in sorted(names) if not name.startswith("__"))
    return ", ".join(shown) or "none"


def _call(process: ModelProcess, signature: SignatureRequest) -> dict[str, Any]:
    """Calls a signature with all rows; if timed, again and with each row separately."""
    phase, output = f"calling {signature.name}", signature.output
    run: dict[str, Any] = {
        "model": CANDIDATE,
        "signature": signature.name,
        "inputs": signature.inputs,
        "outputs": [output],
    }
    predictions = {"values": process.call(phase, **run)["values"][output]}
    if signature.timed:
        predictions["batch_seconds"] = process.call(phase, **run)["seconds"]
        by_row = process.call(phase, "call_in_turn", runs={"": run}, warm=False)[""]
        predictions["values_by_row"] = [row["values"][output] for row in by_row]
        predictions["row_seconds"] = [row["seconds"] for row in by_row]
    return predictions


def _compare(
    signature: SignatureRequest, predictions: dict[str, Any], request: ServingRequest
) -> tuple[float | None, list[str]]:
    """Returns the largest skew of a signature, and why its values are refused."""
    calls = {"all rows at once": [predictions["values"]]}
    if "values_by_row" in predictions:
        calls["row by row"] = predictions["values_by_row"]
    max_skew, reasons = None, []
    rows = len(next(iter(signature.inputs.values())))
    for mode, parts in calls.items():
        output = f"signature {signature.name!r}, {mode}: output {signature.output!r}"
        problem = _find_unusable(signature, parts, rows)
        if problem:
            reasons.append(named(f"{output} {problem}", "E-serving-output"))
        elif signature.expected is not None:
            values, expected = np.concatenate(parts), np.asarray(signature.expected)
            skews = np.abs(values - expected) / np.maximum(1, np.abs(expected))
            by_row = skews.reshape(len(expected), -1).max(axis=1)
            worst = int(by_row.argmax())
            max_skew = max(float(by_row[worst]), max_skew or 0.0)
            # Not `>`: NaN must be refused.
            wrong = ~(by_row <= request.tolerance)
            if wrong.any():
                reasons.append(
                    named(
                        f"{output} differs from the evaluation in training in "
                        f"{wrong.sum()} of {len(wrong)} rows, most in row "
                        f"{request.ids[worst]}: {values[worst]} instead of "
                        f"{expected[worst]}, with a tolerance of {request.tolerance}; "
                        "the exported graph differs from the evaluated model",
                        "E-serving-output",
                    )
                )
    return max_skew, reasons


def _find_unusable(
    signature: SignatureRequest, parts: list[Any], sent: int
) -> str | None:
    """Returns why the outputs cannot be compared; None if they can.

    Args:
      signature: The signature that was called.
      parts: The output of each call.
      sent: The number of rows that were sent in all calls.
    """
    rows = sent // len(parts)
    shape = (rows,) if signature.width is None else (rows, signature.width)
    for part in parts:
        if np.shape(part) != shape:
            return f"has shape {np.shape(part)} for {rows} rows, not {shape}"
    finite = np.isfinite(np.concatenate(parts)).reshape(rows * len(parts), -1)
    bad = int((~finite.all(axis=1)).sum())
    return f"is not finite in {bad} of {len(finite)} rows" if bad else None


def _measure(predictions: dict[str, Any]) -> dict[str, Any]:
    """Returns latency and throughput of the timed signature."""
    for timed in predictions.values():
        if "row_seconds" in timed:
            seconds = timed["row_seconds"]
            p50, p99 = np.percentile(seconds, [50, 99]) * 1000
            return {
                "latency_ms": {"p50": float(p50), "p99": float(p99)},
                "rows_per_second": len(seconds) / timed["batch_seconds"],
            }
    return {"latency_ms": None, "rows_per_second": None}
