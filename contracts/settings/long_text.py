"""Texts that are longer than the encoder: windows, and the part that is kept."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt, model_validator

from contracts.section import Settings

MIN_SEQ_LENGTH = 8

Keep = Literal["head", "tail", "ends"]
DEFAULT_KEEP: Keep = "head"


class LongTextConfig(Settings):
    """Windows that a single text is read in; docs/tokenization.md describes them.

    Attributes:
      window: Tokens of a window, `[CLS]` and `[SEP]` included, up to the encoder's
        limit.
      stride: Tokens of the text from the start of a window to the start of the next. A
        window has `window` - 2 tokens of the text, so the last `window` - 2 - `stride`
        are repeated in the next one. Half of `window` if it is left out.
      pool: How the logits of a text follow from those of its windows: their `mean`, or
        the `max` of each class.
      windows_in_memory: Windows that a step computes at a time on each device. A step
        with more computes chunks of so many, and has the activations of two chunks in
        memory at most; all but one are computed again for their gradients. XLA computes
        all windows at once.
    """

    window: int = Field(default=128, ge=MIN_SEQ_LENGTH)
    stride: PositiveInt = 64
    pool: Literal["mean", "max"] = "mean"
    windows_in_memory: PositiveInt = 64

    @model_validator(mode="before")
    @classmethod
    def _fill_in_stride(cls, values: Any) -> Any:
        window = values.get("window") if isinstance(values, dict) else None
        if isinstance(window, int):
            return {"stride": window // 2, **values}
        return values

    @model_validator(mode="after")
    def _check_stride(self) -> LongTextConfig:
        if self.stride > self.content:
            raise ValueError(
                f"stride is {self.stride}: windows of {self.window} tokens have "
                f"{self.content} of the text, and would leave some out; allowed are 1 "
                f"to {self.content}"
            )
        return self

    @property
    def content(self) -> int:
        """Tokens of the text in a window."""
        return self.window - 2  # [CLS] and [SEP]

    @property
    def model_settings(self) -> dict[str, Any]:
        """The settings that the model depends on: all but `stride`."""
        return self.model_dump(exclude={"stride"})

    @property
    def packing(self) -> dict[str, Any]:
        """The settings that the packed texts depend on."""
        return self.model_dump(include={"window", "stride"})

    def most_windows(self, max_seq_length: int) -> int:
        """Returns the number of windows of the longest text.

        Args:
          max_seq_length: Tokens of the text, with `[CLS]` and `[SEP]` once.
        """
        return 1 + max(0, -((self.window - max_seq_length) // self.stride))


def read(settings: dict[str, Any]) -> LongTextConfig | None:
    """Returns the windows of a component's `custom_config`; None if it has none."""
    windows = settings.get("long_text")
    return None if windows is None else LongTextConfig.model_validate(windows)
