"""The request that ServingCheck sends to a model."""

from __future__ import annotations

from typing import Any

import pydantic

from contracts.settings.sections import Sections

# Largest difference between training and serving by type of the weights, relative for
# predictions above 1. The predictions file has six digits. bfloat16 has three, and
# rounds differently on another machine or in a batch of another shape.
TOLERANCES = {"float32": 1e-5, "bfloat16": 0.02}


class SignatureRequest(pydantic.BaseModel, frozen=True):
    """The rows to send to a signature, and the expected predictions.

    Attributes:
      name: The signature's name.
      inputs: A value per row by input: a string, or bytes as `{"b64": ...}`, as in
        TensorFlow Serving's REST API.
      output: Name of the output to read.
      width: Number of values per row; None for a single number without an axis.
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


class ServingRequest(
    pydantic.BaseModel, frozen=True, extra="forbid", ser_json_inf_nan="constants"
):
    """A check of a model, complete except for the model.

    Attributes:
      settings: The limits for the model.
      ids: Ids of the compared rows; the first are also sent as text.
      signatures: The signatures to call, in this order.
    """

    settings: Sections
    ids: list[int]
    signatures: list[SignatureRequest]

    @property
    def tolerance(self) -> float:
        """Largest difference between a prediction and its expected value.

        It is relative for expected values above 1.
        """
        return TOLERANCES[self.settings.serving.precision]
