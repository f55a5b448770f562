"""The section `serving` of a recipe."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveInt, field_validator, model_validator

from contracts.errors import SettingError
from contracts.section import Settings


class ServingConfig(Settings):
    """The exported model, and its check in a separate process.

    Attributes:
      precision: Type of the exported weights and of their matrix products. `bfloat16`
        halves the model's size and loses some quality. The evaluated model is the
        exported one.
      tf_serving_version: Release of TensorFlow Serving whose tensorflow-text must have
        every op of the model: 2.16 to 2.19 have tensorflow-text 2.12, 2.20 has 2.20.
      rows: Rows to predict as text, drawn from the whole split. Up to four times as
        many are predicted as Examples.
      examples: How many of these rows are pushed with the model, as examples on the
        page of `serve`. 0 pushes none: set it if clients of the model must not see the
        data. It applies to the next version; pushed versions keep their examples.
      portable: Whether a version is also pushed as a folder for ONNX Runtime, `onnx` in
        the version's directory, which `bert-runtime` serves without TensorFlow. It is
        compared with the model on `rows`: a model that differs is not pushed.
      max_memory_bytes: Maximum memory of the process.
      timeout_seconds: Maximum time to load the model and to predict.
    """

    precision: Literal["float32", "bfloat16"] = "float32"
    tf_serving_version: Literal["2.16", "2.17", "2.18", "2.19", "2.20"] = "2.16"
    rows: PositiveInt = 64
    examples: NonNegativeInt = 6
    portable: bool = False
    max_memory_bytes: PositiveInt = 8 << 30
    timeout_seconds: PositiveInt = 600

    @field_validator("tf_serving_version", mode="before")
    @classmethod
    def _read_number(cls, version: Any) -> Any:
        # Python callers may pass a number; YAML keeps the text of `2.20`.
        return f"{version:.2f}" if isinstance(version, float) else version

    @model_validator(mode="after")
    def _check_portable(self) -> ServingConfig:
        if self.portable and self.precision != "float32":
            raise SettingError(
                "portable",
                f"true, with `precision` {self.precision}: ONNX Runtime computes in "
                "float32, so its predictions would differ",
                advice="leave one of the two out",
            )
        return self
