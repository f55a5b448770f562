"""The settings of ServingCheck, and the request that it builds from them."""

from __future__ import annotations

from typing import Any, Literal

import pydantic

from components.serving_check import text_ops
from contracts.settings.words import WordSettings

# Largest difference between training and serving by type of the weights, relative for
# predictions above 1. The predictions file has six digits. bfloat16 has three, and
# rounds differently on another machine or in a batch of another shape.
TOLERANCES = {"float32": 1e-5, "bfloat16": 0.02}


class Predictions(pydantic.BaseModel, frozen=True, extra="forbid"):
    """The Trainer's predictions, to compare the served predictions with.

    Attributes:
      file: TSV with a header, relative to the `ModelRun`.
      id_column: The column, and int64 feature of the Examples, that identifies a row.
      columns: The columns with the predictions: a probability per class, or a single
        score.
      output: The signatures' output with the same predictions.
    """

    file: str
    id_column: str
    columns: list[str]
    output: str


class Limits(pydantic.BaseModel, frozen=True, extra="forbid"):
    """The limits for the model.

    Attributes:
      tf_serving_version: The TensorFlow Serving version that will serve the model, such
        as `2.16`.
      max_memory_bytes: Largest resident memory of the process, TensorFlow included.
      timeout_seconds: Time limit for loading and all predictions together. The champion
        has as much again, and so have the rows with swapped words, and those with
        texts of other rows.
      max_latency_ratio: Largest median time of a request with one row, divided by that
        of the champion, which is timed in turn; None does not time it.
    """

    tf_serving_version: str
    max_memory_bytes: pydantic.PositiveInt
    timeout_seconds: pydantic.PositiveInt
    max_latency_ratio: pydantic.PositiveFloat | None = None

    @pydantic.field_validator("tf_serving_version")
    @classmethod
    def _check_version(cls, version: str) -> str:
        text_ops.text_version(version)
        return version


class ServingCheckSettings(Limits):
    """The settings: the rows to send to the model, and its limits.

    Attributes:
      text_columns: Inputs of the text signature, and features of the Examples.
      text_signature: Takes raw texts, string[batch] per column.
      examples_signature: Takes serialized `tf.Example`s, string[batch].
      examples_input: The input of that signature.
      has_text: Whether the Examples contain the texts. Otherwise fixed texts are sent,
        and their predictions are not compared.
      predictions: The expected predictions.
      rows: Number of rows to send as text, drawn from the whole split. Of a model that
        takes text, up to four times as many are sent as Examples.
      examples: Number of these rows that are pushed with the model, as examples.
      words: The words for groups of people that are swapped in texts.
      precision: Type of the model's weights.
    """

    text_columns: list[str]
    text_signature: str
    examples_signature: str
    examples_input: str
    has_text: bool
    predictions: Predictions
    rows: pydantic.PositiveInt
    examples: pydantic.NonNegativeInt = 0
    words: WordSettings
    precision: Literal["float32", "bfloat16"] = "float32"


class SwapRequest(pydantic.BaseModel, frozen=True):
    """Rows with a word of one list, and their versions with swapped words.

    Attributes:
      inputs: The rows, then the versions, as `SignatureRequest.inputs`.
      ids: The id of each row.
      rows: The index of the row of each version.
      texts: The texts of each row and version, for the report.
    """

    inputs: dict[str, list[str | dict[str, str]]]
    ids: list[int]
    rows: list[int]
    texts: list[list[str]]


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
      permuted: By text column, the inputs with its texts permuted among the rows. The
        output, if it comes in time, must be finite; the report compares its metrics
        with those of `inputs`.
      swapped: By list, rows whose words for groups of people are swapped.
    """

    name: str
    inputs: dict[str, list[str | dict[str, str]]]
    output: str
    width: int | None
    expected: list[Any] | None
    timed: bool
    permuted: dict[str, dict[str, list[str | dict[str, str]]]] = {}
    swapped: dict[str, SwapRequest] = {}


class ServingRequest(Limits, ser_json_inf_nan="constants"):
    """A check of a model, complete except for the model.

    Attributes:
      ids: Ids of the compared rows; the first are also sent as text.
      signatures: The signatures to call, in this order.
      tolerance: Largest difference between a prediction and its expected value,
        relative for expected values above 1.
      words: What swapped words may change; None swaps none.
      not_swapped: Why no words are swapped; None if they are.
      threshold: The model's, as in `metrics.Rows.of`.
    """

    ids: list[int]
    signatures: list[SignatureRequest]
    words: WordSettings | None = None
    not_swapped: str | None = None
    threshold: float | list[float] | None = None
    tolerance: float = TOLERANCES["float32"]
