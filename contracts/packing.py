"""How a text is packed: its longest sequence, the part that is kept, its windows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt, model_validator

from contracts.errors import SettingError
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
            raise SettingError(
                "stride",
                f"{self.stride}: windows of {self.window} tokens have {self.content} "
                "of the text, and would leave some out",
                f"1 to {self.content}",
            )
        return self

    @property
    def content(self) -> int:
        """Tokens of the text in a window."""
        return self.window - 2  # [CLS] and [SEP]

    def most_windows(self, max_seq_length: int) -> int:
        """Returns the number of windows of the longest text.

        Args:
          max_seq_length: Tokens of the text, with `[CLS]` and `[SEP]` once.
        """
        return 1 + max(0, -((self.window - max_seq_length) // self.stride))


class Packing(Settings):
    """How texts become model inputs: the section `preprocessing` of a recipe.

    Attributes:
      max_seq_length: Maximum tokens of a packed text or pair, with special tokens. With
        `long_text` it may exceed the encoder's limit, and repeated tokens count once.
      keep: The part of a longer text that is kept: its `head`, its `tail`, or half of
        each (`ends`). The rest is cut.
    """

    max_seq_length: int = Field(default=128, ge=MIN_SEQ_LENGTH)
    keep: Keep = DEFAULT_KEEP
    long_text: LongTextConfig | None = None

    @model_validator(mode="after")
    def _check_window(self) -> Packing:
        if self.long_text and self.long_text.window >= self.max_seq_length:
            raise SettingError(
                "long_text.window",
                f"{self.long_text.window}, but max_seq_length, the most tokens of a "
                f"text in all its windows, is {self.max_seq_length}: no text would "
                "have a second window",
                advice="raise max_seq_length, or leave long_text out",
            )
        return self

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest text in the model's inputs, in all its windows."""
        if self.long_text is None:
            return self.max_seq_length
        return self.long_text.most_windows(self.max_seq_length) * self.long_text.window

    @property
    def model_settings(self) -> dict[str, Any]:
        """The settings of the windows that the model depends on; empty without any."""
        return self.long_text.model_dump(exclude={"stride"}) if self.long_text else {}

    @property
    def whole(self) -> Packing:
        """The packing of texts as a whole, without windows."""
        return self.model_copy(update={"long_text": None})

    def key(self, *, transform: bool = False) -> dict[str, Any]:
        """Returns the settings for a component: what is set, so that it is cached.

        Args:
          transform: Whether to leave out what only the model depends on.
        """
        changed = self.model_dump(exclude_defaults=True, exclude={"long_text"})
        changed = {"max_seq_length": self.max_seq_length, **changed}
        if self.long_text is not None:
            names = {"window", "stride"} if transform else None
            changed["long_text"] = self.long_text.model_dump(include=names)
        return changed

    def describe(self) -> str:
        """Returns the end of a sentence about what is cut, and one about windows."""
        kept = {"head": "", "tail": ", the last", "ends": ", half of them the last"}
        sentence = f"{kept[self.keep]}."
        if self.long_text is not None:
            sentence += (
                f" The model reads windows of {self.long_text.window} tokens, one "
                f"every {self.long_text.stride} tokens of the text; the logits of a "
                f"text are the {self.long_text.pool} of theirs."
            )
        return sentence
