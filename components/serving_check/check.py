"""Whether a model would serve: it loads, it answers, and as it was evaluated."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
from typing import Any

import numpy as np
from tfx.utils import io_utils

from components.serving_check import supervision, text_ops

# Between training and serving, as a share of a prediction above 1, where the file of
# predictions has six digits of it.
TOLERANCE = 1e-5


@dataclasses.dataclass(frozen=True)
class SignatureRequest:
    """What one signature is asked, and what it must say.

    Attributes:
      name: Of the signature.
      inputs: Values by the input's name, one a row: a string, or bytes as
        `{"b64": ...}`, as the REST interface of TensorFlow Serving has them.
      output: Name of the output that is read.
      width: Values a row in it; None where a row is a single number.
      expected: What the output must be, `[rows]` or `[rows][width]`; None to ask for
        finite values only.
      timed: Whether latency and throughput are measured here.
    """

    name: str
    inputs: dict[str, list[Any]]
    output: str
    width: int | None
    expected: list[Any] | None
    timed: bool


@dataclasses.dataclass(frozen=True)
class ServingRequest:
    """All of a check but the model, as JSON can hold it.

    Attributes:
      ids: Of the rows that are compared, as the Examples name them.
      signatures: What is asked, in this order.
      tf_serving_version: The TensorFlow Serving that the model is meant for.
      max_memory_bytes: Resident memory the process may take, TensorFlow included.
      timeout_seconds: What loading and all answers together may take.
      tolerance: Largest difference between a prediction and its expected value, and
        largest share of it where that is above 1.
    """

    ids: list[int]
    signatures: list[SignatureRequest]
    tf_serving_version: str
    max_memory_bytes: int
    timeout_seconds: int
    tolerance: float = TOLERANCE

    def to_json(self) -> str:
        """Returns what `from_json` reads."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> ServingRequest:
        """Reads what `to_json` returned."""
        content = json.loads(text)
        signatures = [SignatureRequest(**entry) for entry in content.pop("signatures")]
        return cls(signatures=signatures, **content)


@dataclasses.dataclass(frozen=True)
class ServingReport:
    """What a check found.

    Attributes:
      reasons: Why the model is not blessed; empty if it is.
      rows: How many rows were compared.
      max_skew: By signature, the largest difference from the expected values, above 1
        as a share of them; None where nothing was compared.
      latency_ms: `p50` and `p99` of a request of one row, in milliseconds; None if the
        model did not get so far.
      rows_per_second: Of one request with all rows; None as above.
      load_seconds: What loading took; None as above.
      peak_memory_bytes: Highest resident memory, TensorFlow's own included.
      tf_serving_version: Whose ops were asked for.
      text_version: The tensorflow-text in that TensorFlow Serving.
    """

    reasons: list[str]
    rows: int
    max_skew: dict[str, float | None]
    latency_ms: dict[str, float] | None
    rows_per_second: float | None
    load_seconds: float | None
    peak_memory_bytes: int
    tf_serving_version: str
    text_version: str

    @property
    def blessed(self) -> bool:
        """Whether the model may be served."""
        return not self.reasons

    def to_json(self) -> str:
        """Returns `blessed` and the attributes."""
        content = {"blessed": self.blessed, **dataclasses.asdict(self)}
        return json.dumps(content, indent=1)


def check_model(
    model: str, request: ServingRequest, *, python: str = sys.executable
) -> ServingReport:
    """Starts a copy of a model in a clean process and asks it.

    Args:
      model: Directory of the SavedModel, local or remote.
      request: What is asked.
      python: Interpreter of an environment with TensorFlow and tensorflow-text.

    Returns:
      The report. A model that fails, crashes or hangs is not blessed in it.

    Raises:
      ValueError: `tf_serving_version` is not one that is known.
      RuntimeError: The interpreter has no TensorFlow and tensorflow-text that work.
    """
    text_version = text_ops.text_version(request.tf_serving_version)
    with tempfile.TemporaryDirectory() as directory:
        copy = os.path.join(directory, "model")
        io_utils.copy_dir(model, copy)
        outcome = supervision.run_probe(
            {
                "model": copy,
                "signatures": [dataclasses.asdict(s) for s in request.signatures],
            },
            directory,
            supervision.Limits(request.max_memory_bytes, request.timeout_seconds),
            python,
        )
    reasons, max_skew = _collect(request, outcome)
    latency_ms, rows_per_second = _measure(outcome.response.get("answers", {}))
    return ServingReport(
        reasons=reasons,
        rows=len(request.ids),
        max_skew=max_skew,
        latency_ms=latency_ms,
        rows_per_second=rows_per_second,
        load_seconds=outcome.response.get("load_seconds"),
        peak_memory_bytes=outcome.peak_memory_bytes,
        tf_serving_version=request.tf_serving_version,
        text_version=text_version,
    )


def _collect(
    request: ServingRequest, outcome: supervision.Outcome
) -> tuple[list[str], dict[str, float | None]]:
    """Returns all that speaks against a model, and the skew of each signature."""
    response = outcome.response
    reasons = text_ops.find_missing(
        response.get("unknown_ops", []), request.tf_serving_version
    )
    reasons += response.get("problems", [])
    reasons += [outcome.failure] if outcome.failure else []
    max_skew: dict[str, float | None] = {}
    for signature in request.signatures:
        max_skew[signature.name] = None
        answer = response.get("answers", {}).get(signature.name)
        if answer is not None:
            skew, found = _judge(signature, answer, request.ids, request.tolerance)
            max_skew[signature.name] = skew
            reasons += found
    return reasons, max_skew


def _judge(
    signature: SignatureRequest,
    answer: dict[str, Any],
    ids: list[int],
    tolerance: float,
) -> tuple[float | None, list[str]]:
    """Returns the largest skew of a signature, and what is wrong with its answers."""
    ways = {"all rows at once": [answer["values"]]}
    if "values_by_one" in answer:
        ways["row by row"] = answer["values_by_one"]
    largest, reasons = None, []
    for way, parts in ways.items():
        given = f"signature {signature.name!r}, {way}: output {signature.output!r}"
        wrong = _find_unusable(signature, parts)
        if wrong:
            reasons.append(f"{given} {wrong}")
        elif signature.expected is not None:
            values, expected = np.concatenate(parts), np.asarray(signature.expected)
            skews = np.abs(values - expected) / np.maximum(1, np.abs(expected))
            by_row = skews.reshape(len(expected), -1).max(axis=1)
            worst = int(by_row.argmax())
            largest = max(largest or 0.0, float(by_row[worst]))
            if by_row[worst] > tolerance:
                reasons.append(
                    f"{given} differs from what was evaluated in training in "
                    f"{(by_row > tolerance).sum()} of {len(by_row)} rows, most "
                    f"in row {ids[worst]}: {values[worst]} in place of "
                    f"{expected[worst]}, where {tolerance} is allowed; the "
                    "exported graph does not compute what was evaluated"
                )
    return largest, reasons


def _find_unusable(signature: SignatureRequest, parts: list[Any]) -> str | None:
    """Says what makes values unusable; a part is what one call returned."""
    rows = len(next(iter(signature.inputs.values()))) // len(parts)
    shape = (rows,) if signature.width is None else (rows, signature.width)
    for part in parts:
        if np.shape(part) != shape:
            return f"has shape {np.shape(part)} for {rows} rows, not {shape}"
    finite = np.isfinite(np.concatenate(parts)).reshape(rows * len(parts), -1)
    bad = int((~finite.all(axis=1)).sum())
    return f"is not finite in {bad} of {len(finite)} rows" if bad else None


def _measure(answers: dict[str, Any]) -> tuple[dict[str, float] | None, float | None]:
    """Returns latency in milliseconds and throughput of the timed signature."""
    timed = next((a for a in answers.values() if "call_seconds" in a), None)
    if timed is None:
        return None, None
    calls = timed["call_seconds"]
    p50, p99 = np.percentile(calls, [50, 99]) * 1000
    return {"p50": float(p50), "p99": float(p99)}, len(calls) / timed["batch_seconds"]
