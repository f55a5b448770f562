"""The folder of a portable model: its files, its description, and what is refused.

    FOLDER/
      model.json        what the model predicts, and how texts become its inputs
      model.onnx        from token ids to logits
      model.int8.onnx   the same with weights in int8, if it was exported
      tokenizer.json    the vocabulary, in the format of Hugging Face's `tokenizers`
      characters.json   what each character becomes before text is split into words
      manifest.json     size and SHA-256 of each file
      MODEL_CARD.md     the card of the version, if it has one
      examples.json     rows for people to try it with, if there are any

It has data only: nothing in it is executed.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pydantic

from contracts import setting_problems
from contracts.errors import UsageError
from contracts.packing import Packing
from contracts.records import RecordFile
from contracts.storage import files, uris
from contracts.task.definition import find_kind
from contracts.task.label_kind import LabelKind
from contracts.tokenization import TokenizerSettings
from contracts.versions.exported_model import PORTABLE_FILE
from portable.characters import CharacterTable, Normalizer
from portable.tokenizer import Tokenizer

ONNX_FILE = "model.onnx"
INT8_FILE = "model.int8.onnx"
TOKENIZER_FILE = "tokenizer.json"
CARD_FILE = "MODEL_CARD.md"
EXAMPLES_FILE = "examples.json"

# The inputs and the output of the ONNX files.
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
LOGITS = "logits"


_Name = Annotated[str, pydantic.Field(min_length=1)]
# Above 1, the class is never predicted.
_Threshold = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]


class PortableDescription(RecordFile, frozen=True):
    """What a portable model predicts, and how.

    Attributes:
      text_columns: The text columns in the task's order.
      kind: As `task.kind`.
      classes: The names by index; None for a score.
      label_range: The lowest and highest score; None for classes.
      separator: Separates several labels in a text.
      temperature: Divides the logits before they become probabilities.
      threshold: The probability from which the positive class of two is predicted, or
        that of each of several labels; None for the most probable class or 0.5.
      packing: How texts become model inputs.
      tokenizer: The tokenizer's settings.
      vocab_size: The number of tokens.
      type_vocab_size: The number of token types.
      precision: The type of the weights of the pushed model.
      opset: The version of ONNX's operators.
      version: The version that was exported.
      digest: `exported_model.identity` of the pushed model.
      metrics: The metrics of the version at the gate, by name.
    """

    FILE: ClassVar[str] = PORTABLE_FILE

    text_columns: tuple[_Name, ...] = pydantic.Field(min_length=1, max_length=2)
    kind: Literal["multilabel"] | None = None
    classes: tuple[_Name, ...] | None = pydantic.Field(default=None, min_length=2)
    label_range: tuple[float, float] | None = None
    separator: str | None = None
    temperature: float = pydantic.Field(default=1.0, gt=0, allow_inf_nan=False)
    threshold: _Threshold | tuple[_Threshold, ...] | None = None
    packing: Packing
    tokenizer: TokenizerSettings
    vocab_size: pydantic.PositiveInt
    type_vocab_size: pydantic.PositiveInt
    precision: str
    opset: pydantic.PositiveInt
    version: str
    digest: str
    metrics: dict[str, float] = pydantic.Field(default_factory=dict)

    @property
    def label_kind(self) -> LabelKind:
        """What the model predicts."""
        return find_kind(self.kind, self.classes, self.label_range)

    @pydantic.model_validator(mode="after")
    def _check(self) -> PortableDescription:
        """Refuses fields that contradict each other."""
        for names in (self.text_columns, self.classes or ()):
            if len(set(names)) < len(names):
                raise ValueError(f"{list(names)} are not distinct")
        if self.kind and not self.classes:
            raise ValueError(f"classes: missing, with kind {self.kind}")
        decided = self.label_kind.decided_names
        match self.threshold:
            case tuple(thresholds):
                fits = bool(self.kind) and len(thresholds) == len(decided)
            case threshold:
                fits = threshold is None or (not self.kind and len(decided) == 1)
        if not fits:
            raise ValueError(
                f"threshold: {self.threshold} is not one for each of {decided}"
            )
        if self.packing.long_text and len(self.text_columns) > 1:
            raise ValueError("packing.long_text: a pair has no windows")
        return self


def read_description(folder: str) -> PortableDescription:
    """Reads the description of a portable folder.

    Raises:
      UsageError: The folder has none, of another format, or a damaged one.
    """
    try:
        described = PortableDescription.read(folder)
    except files.FormatError:
        raise
    except ValueError as error:
        raise _damaged(folder, PORTABLE_FILE, _first_problem(error)) from error
    if described is None:
        raise UsageError(
            "model",
            f"{folder} has no {PORTABLE_FILE}",
            "a folder that `bert-pipeline export --format onnx` wrote",
            name="E-model-not-found",
        )
    return described


def read_tokenizer(folder: str, described: PortableDescription) -> Tokenizer:
    """Reads the tokenizer of a portable folder.

    Raises:
      UsageError: A file is missing, damaged, or of another vocabulary.
    """
    try:
        table = CharacterTable.read(folder)
    except files.FormatError:
        raise
    except ValueError as error:
        raise _damaged(folder, CharacterTable.FILE, _first_problem(error)) from error
    if table is None:
        raise _damaged(folder, CharacterTable.FILE, "missing")
    path = uris.join(folder, TOKENIZER_FILE)
    if files.size(path) is None:
        raise _damaged(folder, TOKENIZER_FILE, "missing")
    try:
        tokenizer = Tokenizer(path, Normalizer(table))
    except ValueError as error:
        raise _damaged(folder, TOKENIZER_FILE, str(error)) from error
    if tokenizer.size != described.vocab_size:
        raise _damaged(
            folder,
            TOKENIZER_FILE,
            f"it has {tokenizer.size} tokens, and the model {described.vocab_size}",
        )
    longest = described.tokenizer.max_input_chars_per_word
    if tokenizer.longest_word != longest:
        raise _damaged(
            folder,
            TOKENIZER_FILE,
            f"its longest word has {tokenizer.longest_word} characters, and that of "
            f"{PORTABLE_FILE} {longest}",
        )
    return tokenizer


def check_weights(folder: str, file: str) -> str:
    """Returns the path of an ONNX file that has all its weights.

    Raises:
      UsageError: The file is missing, or reads weights from another file.
    """
    path = Path(folder, file)
    if not path.is_file() or not path.stat().st_size:
        if file == INT8_FILE and not path.exists():
            raise UsageError(
                "int8",
                f"{folder} has no {INT8_FILE}",
                advice="export it with `--int8`, or leave `int8` out",
                name="E-options-conflict",
            )
        raise _damaged(folder, file, "missing or empty")
    with (
        path.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        # The key of the entry with the path of external data, in `onnx.proto`. ONNX
        # Runtime would read any file that the entry names.
        if content.find(b"location") >= 0:
            raise _damaged(folder, file, "it reads weights from another file")
    return str(path)


def _damaged(folder: str, file: str, got: str) -> UsageError:
    return UsageError(
        "model",
        f"{uris.join(folder, file)}: {got}",
        advice="export the model again, or copy the whole folder",
        name="E-model-damaged",
    )


def _first_problem(error: ValueError) -> str:
    """Returns the first problem in one line."""
    if isinstance(error, pydantic.ValidationError):
        problem = error.errors()[0]
        found = problem.get("ctx", {}).get("error", problem["msg"])
        place = setting_problems.join(*problem["loc"])
        return ": ".join(filter(None, (place, str(found))))
    return str(error)
