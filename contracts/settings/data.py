"""The section `data` of a recipe, and the names of splits."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from contracts.errors import SettingError
from contracts.section import Settings
from contracts.task.definition import (
    EVAL_SPLIT,
    TOKENIZED_FEATURES,
    TRAIN_SPLIT,
    TaskConfig,
)

# Characters by their names in a recipe.
DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}
# Examples of encodings by their names in Python.
ENCODINGS = {
    "cp1252": "Windows in Western Europe",
    "cp1251": "Cyrillic",
    "shift_jis": "Japanese",
    "gb18030": "Chinese",
}
FileFormat = Literal["csv", "tsv", "jsonl", "parquet", "arrow", "tfrecord", "folders"]
Quoting = Literal["double", "backslash", "none"]
TFDS_PREFIX = "tfds:"  # of sources that are not paths
SPAN = "{SPAN}"  # TFX's notation for the number of a span
MOST_VALUES = 50  # of a column in `slice_columns`; each is a slice
REQUIRED_SPLITS = (TRAIN_SPLIT, EVAL_SPLIT)
TEST = "test"
SPLITS = (*REQUIRED_SPLITS, "eval_mismatched", TEST, "test_mismatched")


class DataConfig(Settings):
    """Where the examples come from, how their files are read, and what they must match.

    Attributes:
      source: A file, a directory with the files of each split, a folder that Hugging
        Face `datasets` saved, or `tfds:NAME`. None reads a GLUE task from TFDS.
        `{SPAN}` in a directory's name stands for a number: each delivery of data has
        its own span.
      span: Span to read; None reads the largest one.
      schema_file: A curated schema (`.pbtxt`); None derives one from the task.
      format: Format of the files; None derives it from their names. `folders` is a
        folder of text files for each class.
      encoding: Python's name of the encoding of CSV, TSV and JSON lines. A file of
        `utf-8` may start with a byte order mark, also that of UTF-16 or UTF-32, which
        is then its encoding.
      delimiter: Separator of the fields of CSV and TSV: a character, or `comma`,
        `semicolon`, `tab` or `pipe`; None detects it.
      quoting: How CSV and TSV quote: `double` writes a quote in a quoted field twice,
        `backslash` puts a backslash before it, `none` has no quoted fields: a quote is
        text. None detects it.
      quote: Character around the fields of CSV and TSV; None detects `"` or `'`.
      columns: Names of the columns of CSV and TSV files without a header; None reads
        them from the first line. Other formats have names, and refuse it.
      test_size: Share of the rows that become the split `test`, if the source has no
        splits. A larger share only moves rows out of `train`.
      eval_size: The same for `eval`, whose rows choose the checkpoint. `train` has the
        rest.
      group_column: Column, such as an author or a question; rows with equal values go
        to the same split. If the source has splits, a value in two of them is refused.
        TFRecords are not checked, so it is refused with them.
      slice_columns: Columns, such as a region or a source, that are no input of the
        model. The evaluation has the metrics of each of their values, at most 50 of a
        column; `checks.slices.thresholds` can bound them.
      split_seed: Another seed splits the rows of a source without splits differently.
      on_bad_rows: What happens if a row cannot be read, has an empty text, or has a
        label that the task does not allow. `refuse` stops before any long work and
        names the first rows; `skip` leaves such rows out and writes them with their
        reasons to `skipped.jsonl` next to the examples.
      license: License of the data, for its card.
    """

    source: str | None = None
    span: int | None = Field(default=None, ge=0)
    schema_file: str | None = None
    format: FileFormat | None = None
    encoding: str = "utf-8"
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    quoting: Quoting | None = None
    quote: str | None = Field(default=None, min_length=1, max_length=1)
    columns: list[str] | None = Field(default=None, min_length=1)
    test_size: float = Field(default=0.2, gt=0, lt=1)
    eval_size: float = Field(default=0.1, gt=0, lt=1)
    group_column: str | None = None
    slice_columns: list[str] = Field(default_factory=list)
    split_seed: int = Field(default=0, ge=0)
    on_bad_rows: Literal["refuse", "skip"] = "refuse"
    license: str | None = None

    @field_validator("delimiter", mode="before")
    @classmethod
    def _read_name(cls, delimiter: Any) -> Any:
        # Most delimiters are hard to write in a shell and in YAML.
        return DELIMITERS.get(str(delimiter), delimiter)

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and delimiter in '"\r\n':
            raise SettingError(
                got="a quote or the end of a line cannot separate fields",
                advice=f"give any other character, or {', '.join(DELIMITERS)}",
            )
        return delimiter

    @field_validator("quote")
    @classmethod
    def _check_quote(cls, quote: str | None) -> str | None:
        if quote is not None and (quote.isalnum() or quote.isspace() or quote == "\\"):
            raise SettingError(
                got="a letter, a digit, a backslash or white space cannot quote fields",
                advice="give another character, such as '",
            )
        return quote

    @field_validator("columns", mode="before")
    @classmethod
    def _split_names(cls, columns: Any) -> Any:
        """Returns the names in `text,label`, as `--columns` has them."""
        if not isinstance(columns, str):
            return columns
        return [name.strip() for name in columns.split(",")]

    @field_validator("columns")
    @classmethod
    def _check_columns(cls, columns: list[str] | None) -> list[str] | None:
        names = columns or []
        if not all(map(str.strip, names)) or len({*names}) < len(names):
            raise SettingError(allowed="a different name for each column, not empty")
        return columns

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str) -> str:
        try:
            "".encode(encoding)  # fails for codecs that are not of text, such as base64
            # Fails for codecs that only decode strictly, such as idna.
            codecs.getincrementaldecoder(encoding)("surrogateescape").decode(b"")
            return codecs.lookup(encoding).name
        except (LookupError, UnicodeError):
            examples = ", ".join(f"{name} ({use})" for name, use in ENCODINGS.items())
            raise SettingError(
                allowed=f"Python's encodings, such as utf-8, utf-16, {examples}"
            ) from None

    @model_validator(mode="after")
    def _check_dialect(self) -> DataConfig:
        if self.quote is not None and self.quote == self.delimiter:
            raise SettingError(
                "quote", f"{self.quote}, the delimiter", advice="choose another one"
            )
        if self.quote is not None and self.quoting == "none":
            raise SettingError(
                "quote",
                f"{self.quote}, but quoting is none, which reads quotes as text",
                advice="leave one of them out",
            )
        if self.columns and (self.source or "").startswith(TFDS_PREFIX):
            raise SettingError(
                "columns",
                f"for files without a header, but source is {self.source}, whose "
                "columns have names",
                advice="leave data.columns out",
            )
        return self

    @model_validator(mode="after")
    def _check_sizes(self) -> DataConfig:
        if self.test_size + self.eval_size >= 1:
            raise SettingError(
                "test_size",
                f"{self.test_size:g}, and eval_size is {self.eval_size:g}: no rows are "
                "left for train",
                "a sum below 1",
            )
        return self

    @model_validator(mode="after")
    def _check_span(self) -> DataConfig:
        if self.span is not None and SPAN not in (self.source or ""):
            raise SettingError(
                "span",
                f"{self.span}, but source is {self.source}, without {SPAN} in it",
                advice="leave data.span out",
            )
        return self


def check_slice_columns(columns: Sequence[str], task: TaskConfig) -> None:
    """Raises a SettingError if an evaluation cannot be sliced by some columns."""
    tokens = TOKENIZED_FEATURES if task.is_tokenized else ()
    problems: dict[str, set[str]] = {
        "twice": {column for column in columns if columns.count(column) > 1},
        "a column of the task": {*columns}
        & {*task.columns, *task.label_columns, *tokens},
        "by which each evaluation is sliced": {*columns} & {*task.slice_features},
        "without a character": {column for column in columns if not column},
    }
    for problem, names in problems.items():
        for name in sorted(names):
            raise SettingError(
                "data.slice_columns",
                f"names {name!r}, {problem}",
                advice="leave it out",
            )
