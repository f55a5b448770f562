"""Calls a model in a clean process and compares its predictions."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import numpy as np
from tfx.utils import io_utils

from components.serving_check import supervision, swapped_words, text_ops
from components.serving_check.request import ServingRequest, SignatureRequest
from contracts.errors import named
from contracts.verdicts import ServingReport, WordChanges


def check_model(
    model: str,
    request: ServingRequest,
    *,
    champion: str | None = None,
    python: str = sys.executable,
) -> tuple[ServingReport, dict[str, Any]]:
    """Loads a copy of a model in a clean process and calls its signatures.

    Args:
      model: Directory of the SavedModel, local or remote.
      request: The request to send.
      champion: Directory of the SavedModel to time beside the model, local or remote;
        None without one, or without `max_latency_ratio`.
      python: Interpreter of an environment with TensorFlow and tensorflow-text.

    Returns:
      The report, and the probe's `predictions` by signature. A model that fails,
      crashes or hangs is not blessed, and lacks predictions.

    Raises:
      RuntimeError: TensorFlow or tensorflow-text cannot be imported.
    """
    settings = request.settings
    tf_serving_version = settings.serving.tf_serving_version
    text_version = text_ops.text_version(tf_serving_version)
    with tempfile.TemporaryDirectory() as directory:
        copy = os.path.join(directory, "model")
        io_utils.copy_dir(model, copy)
        other = None if champion is None else os.path.join(directory, "champion")
        if other is not None:
            io_utils.copy_dir(champion, other)
        outcome = supervision.run_probe(copy, request, directory, python, other)
    response = outcome.response
    predictions = response.get("predictions", {})
    reasons = text_ops.find_missing(response.get("unknown_ops", []), tf_serving_version)
    reasons += [
        named(problem, "E-serving-output") for problem in response.get("problems", [])
    ]
    if outcome.failure:
        reasons.append(named(outcome.failure, "E-serving-failed"))
    max_skew: dict[str, float | None] = {}
    for signature in request.signatures:
        max_skew[signature.name] = None
        if signature.name in predictions:
            skew, differences = _compare(
                signature, predictions[signature.name], request
            )
            max_skew[signature.name] = skew
            reasons += differences
    latency_compared = _medians(response.get("compared_seconds", {}))
    reasons += _find_slow(latency_compared, request)
    changes, warnings = list[WordChanges](), list[str]()
    if not reasons:
        changes = swapped_words.measure(request, predictions)
        excess = (
            part.find_excess(settings.evaluator.max_changed_by_words)
            for part in changes
        )
        warnings = [reason for reason in excess if reason is not None]
        if outcome.not_swapped:
            warnings.append(named(outcome.not_swapped, "E-changed-by-words"))
        if warnings and settings.evaluator.changed_by_words == "refuse":
            reasons, warnings = warnings, []
    report = ServingReport(
        reasons=reasons,
        rows=len(request.ids),
        max_skew=max_skew,
        load_seconds=response.get("load_seconds"),
        peak_memory_bytes=outcome.peak_memory_bytes,
        tf_serving_version=tf_serving_version,
        text_version=text_version,
        latency_compared_ms=latency_compared,
        group_words=changes,
        not_swapped=outcome.not_swapped or request.not_swapped,
        warnings=warnings,
        latency_of_columns_ms=_medians(response.get("column_seconds", {})),
        **_measure(predictions),
    )
    return report, predictions


def _medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Returns medians in milliseconds."""
    return {name: float(np.median(times)) * 1000 for name, times in seconds.items()}


def _find_slow(latency: dict[str, float], request: ServingRequest) -> list[str]:
    """Returns why a model is too slow; empty if it is not, or was not compared."""
    if not latency:
        return []
    limit = request.settings.serving.max_latency_ratio
    model, champion = latency["model"], latency["champion"]
    if limit is None or model <= limit * champion:
        return []
    return [
        named(
            f"a request of one row takes {model:.1f} ms with the model and "
            f"{champion:.1f} ms with the champion, in turn on this machine (medians): "
            f"{model / champion:.2f} times as long, but serving.max_latency_ratio "
            f"allows {limit:g}. If the model shall be slower, raise the setting",
            "E-serving-slow",
        )
    ]


def _compare(
    signature: SignatureRequest, predictions: dict[str, Any], request: ServingRequest
) -> tuple[float | None, list[str]]:
    """Returns the largest skew of a signature, and why its values are refused."""
    calls = {"all rows at once": [predictions["values"]]}
    if "values_by_row" in predictions:
        calls["row by row"] = predictions["values_by_row"]
    max_skew, reasons = None, []
    rows = len(next(iter(signature.inputs.values())))
    for column, values in predictions.get("permuted", {}).items():
        if problem := _find_unusable(signature, [values], rows):
            reasons.append(
                named(
                    f"signature {signature.name!r}, {column!r} of other rows: output "
                    f"{signature.output!r} {problem}",
                    "E-serving-output",
                )
            )
    for name, values in predictions.get("swapped", {}).items():
        sent = len(signature.swapped[name].texts)
        if problem := _find_unusable(signature, [values], sent):
            reasons.append(
                named(
                    f"signature {signature.name!r}, rows with swapped words of "
                    f"evaluator.group_words.{name}: output {signature.output!r} "
                    f"{problem}",
                    "E-serving-output",
                )
            )
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
