"""The request of a serving check."""

from __future__ import annotations

from typing import Any

import pydantic

from components.serving_check.settings import Limits

# Between training and serving, relative to predictions above 1. The predictions file
# has six digits.
TOLERANCE = 1e-5


class SignatureRequest(pydantic.BaseModel, frozen=True):
    """The rows to send to a signature, and the expected predictions.

    Attributes:
      name: The signature's name.
      inputs: A value per row by input: a string, or bytes as `{"b64": ...}`, as in
        TensorFlow Serving's REST API.
      output: Name of the output to read.
      width: Values per row of the output; None for a single number per row.
      expected: Expected output, `[rows]` or `[rows][width]`; None requires only finite
        values.
      timed: Whether to measure latency and throughput.
    """

    name: str
    inputs: dict[str, list[str | dict[str, str]]]
    output: str
    width: int | None
    expected: list[Any] | None
    timed: bool


class ServingRequest(Limits, ser_json_inf_nan="constants"):
    """A check of a model, complete except for the model.

    Attributes:
      ids: Ids of the compared rows.
      signatures: The signatures to call, in this order.
      tolerance: Largest difference between a prediction and its expected value,
        relative to expected values above 1.
    """

    ids: list[int]
    signatures: list[SignatureRequest]
    tolerance: float = TOLERANCE
