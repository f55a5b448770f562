"""Sections of the recipe that the pipeline itself reads."""

from __future__ import annotations

import codecs
from typing import Any, Literal

from pydantic import (
    Field,
    NonNegativeInt,
    PositiveInt,
    field_validator,
    model_validator,
)

from modules.config.settings import Settings

# Characters by their names in a recipe.
DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|"}
FileFormat = Literal["csv", "tsv", "jsonl", "parquet", "arrow", "tfrecord"]
Quoting = Literal["double", "backslash", "none"]
# Prefixes of sources that are not paths.
PACKAGE_PREFIX = "package:"
TFDS_PREFIX = "tfds:"
SPAN = "{SPAN}"  # TFX's notation for the number of a span
MIN_SEQ_LENGTH = 8


class DataConfig(Settings):
    """Where the examples come from, how their files are read, and what they must match.

    Attributes:
      source: A file, a directory with the files of each split, a folder that Hugging
        Face `datasets` saved, or `tfds:NAME`. None reads a GLUE task from TFDS.
        `{SPAN}` in a directory's name stands for a number: each delivery of data has
        its own span.
      span: Span to read; None reads the largest one.
      schema_file: A curated schema (`.pbtxt`); None derives one from the task.
      format: Format of the files; None derives it from their names.
      encoding: Python's name of the encoding of CSV, TSV and JSON lines. A file of
        `utf-8` may start with a byte order mark.
      delimiter: What separates the fields of CSV and TSV: a character, or `comma`,
        `semicolon`, `tab` or `pipe`; None finds it.
      quoting: How CSV and TSV quote: `double` writes a quote in a quoted field twice,
        `backslash` puts a backslash before it, `none` has no quoted fields: a quote is
        text. None finds it.
      test_size: Share of the rows that become the split `eval`, if the source has no
        splits.
      group_column: Column whose rows of one value go to the same split, if the source
        has no splits, such as an author or a question.
      split_seed: Seed of the random split, if the source has no splits.
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
    test_size: float = Field(default=0.2, gt=0, lt=1)
    group_column: str | None = None
    split_seed: int = Field(default=0, ge=0)
    on_bad_rows: Literal["refuse", "skip"] = "refuse"
    license: str | None = None

    @field_validator("delimiter", mode="before")
    @classmethod
    def _read_name(cls, delimiter: Any) -> Any:
        # Most delimiters are hard to write in a shell and in YAML.
        return DELIMITERS.get(delimiter, delimiter)

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str) -> str:
        try:
            "".encode(encoding)  # fails for codecs that are not of text, such as base64
            return codecs.lookup(encoding).name
        except LookupError:
            raise ValueError(
                "not an encoding of Python; examples are utf-8, utf-16, cp1252 "
                "(Windows, Western Europe), cp1251 (Cyrillic) and shift_jis"
            ) from None

    @model_validator(mode="after")
    def _check_span(self) -> DataConfig:
        if self.span is not None and SPAN not in (self.source or ""):
            raise ValueError(
                f"span is {self.span}, but source is {self.source}, without {SPAN} in "
                "it; leave data.span out"
            )
        return self


class EncoderConfig(Settings):
    """Where the pre-trained encoder comes from.

    Attributes:
      source: A directory (local or `gs://`), `package:NAME/PATH` for a directory in an
        installed package, or the handle of a SavedModel on TF Hub or Kaggle. It holds
        a Model Garden checkpoint, a Hugging Face folder or a SavedModel.
      sha256: Expected SHA-256 over the names and contents of all files that are read
        from the source: configuration or graph, vocabulary, tokenizer settings and
        weights. It is checked before any file is used; the error message has the
        actual hash. None checks nothing.
    """

    source: str
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class PreprocessingConfig(Settings):
    """How texts become model inputs.

    Attributes:
      max_seq_length: Maximum tokens of a packed text or pair, with special tokens.
    """

    max_seq_length: int = Field(default=128, ge=MIN_SEQ_LENGTH)


class EvaluatorConfig(Settings):
    """The quality that a model must reach before it is pushed.

    Attributes:
      split: Split that the thresholds apply to.
      thresholds: Lowest value by metric, in the range of the metric.
      max_regression: How far below the champion each metric may be. On n rows an
        accuracy p has a standard error of sqrt(p (1 - p) / n): a smaller drop is noise.
      incompatible_champion: What happens if the champion, the model that was pushed
        last, has other text columns, classes or range. `ignore` applies the thresholds
        alone and reports it in the verdict; `refuse` stops the run before training.
    """

    split: str = "eval"
    thresholds: dict[str, float] = Field(default_factory=dict)
    max_regression: dict[str, float] = Field(default_factory=dict)
    incompatible_champion: Literal["ignore", "refuse"] = "ignore"


class ServingConfig(Settings):
    """The exported model, and its check in a separate process.

    Attributes:
      precision: Type of the exported weights and of their matrix products. `bfloat16`
        halves the model's size and loses some quality; what is evaluated is what is
        served.
      tf_serving_version: Release of TensorFlow Serving whose tensorflow-text must have
        every op of the model: 2.16 to 2.19 have tensorflow-text 2.12, 2.20 has 2.20.
      rows: Rows to predict, as text and as Examples.
      examples: How many of these rows are pushed with the model, as examples on the
        page of `serve`. 0 pushes none: set it if those who call the model must not read
        the data. It applies to the next version; pushed versions keep their examples.
      max_memory_bytes: Maximum memory of the process.
      timeout_seconds: Maximum time to load the model and to predict.
    """

    precision: Literal["float32", "bfloat16"] = "float32"
    tf_serving_version: Literal["2.16", "2.17", "2.18", "2.19", "2.20"] = "2.16"
    rows: PositiveInt = 64
    examples: NonNegativeInt = 6
    max_memory_bytes: PositiveInt = 8 << 30
    timeout_seconds: PositiveInt = 600

    @field_validator("tf_serving_version", mode="before")
    @classmethod
    def _read_number(cls, version: Any) -> Any:
        # Python callers may pass a number; YAML keeps the text of `2.20`.
        return f"{version:.2f}" if isinstance(version, float) else version
