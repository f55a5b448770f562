"""Predictions of a pushed model, for a few texts or a file of them."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.config.errors import UsageError
from pipeline.inputs import examples as examples_lib

_ROWS_AT_A_TIME = 256
_DECIMALS = 6  # of what a file is given
_SAVED_MODEL = "saved_model.pb"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What the model says of one row.

    Attributes:
      texts: The sentence, or the pair.
      value: The name of the most probable class, or a regression's score.
      probability: The class's probability; None for a score.
      probabilities: Those of all classes, in the order of the labels; None for a score.
    """

    texts: tuple[str, ...]
    value: str | float
    probability: float | None = None
    probabilities: list[float] | None = None

    @property
    def is_score(self) -> bool:
        """Whether the model predicts a score, and not a class."""
        return self.probability is None


def find_model(directory: str) -> str:
    """Returns the directory of a SavedModel, the newest version if there are several.

    Args:
      directory: Local, or remote (`gs://`).

    Raises:
      UsageError: There is no SavedModel.
    """
    if _has_model(directory):
        return directory
    from components import versions

    for version in versions.list_versions(directory):
        path = os.path.join(directory, str(version))
        if _has_model(path):
            return path
    raise UsageError(
        f"--model {directory} holds no SavedModel; give the directory after `pushed` "
        "in the last line of a run"
    )


def predict_texts(
    directory: str, rows: Iterable[tuple[str, ...]]
) -> Iterator[Prediction]:
    """Predicts single sentences or pairs, whichever the model takes.

    Args:
      directory: A SavedModel, or a directory of its versions.
      rows: Texts in the order of the task's columns.

    Raises:
      UsageError: There is no SavedModel, or it takes another number of texts.
    """
    return Predictor(find_model(directory)).predict(rows)


def predict_file(directory: str, source: str, destination: str) -> int:
    """Predicts the rows of a file, keeping its columns.

    Args:
      directory: A SavedModel, or a directory of its versions.
      source: `.tsv` (with a header, unquoted) or `.jsonl`.
      destination: `.tsv` or `.jsonl`: the source's columns, `prediction` and, of
        classes, `probability`. It appears when it is whole.

    Returns:
      The number of rows.

    Raises:
      UsageError: There is no SavedModel, or a row cannot be read, predicted or written;
        or the destination cannot be replaced, and the predictions are kept beside it.
    """
    rows = _read_rows(source)
    write = _writer(destination)
    predictor = Predictor(find_model(directory))
    # A symbolic link is kept. The name is unique: others may write the same file.
    target = Path(os.path.realpath(destination))
    incomplete = target.with_name(f"{target.name}.incomplete-{uuid.uuid4().hex[:12]}")
    count = 0
    try:
        with open(incomplete, "w", encoding="utf-8", newline="") as file:
            for count, row in enumerate(predictor.predict_rows(rows), 1):
                write(file, row, is_first=count == 1)
    except BaseException:
        incomplete.unlink(missing_ok=True)
        raise
    try:
        incomplete.replace(target)
    except OSError as error:
        raise UsageError(
            f"all rows are predicted, but --output {destination} cannot be replaced "
            f"({error}); the predictions are in {incomplete}"
        ) from error
    return count


class Predictor:
    """A loaded model, asked by its signatures."""

    def __init__(self, directory: str) -> None:
        """Loads a SavedModel, as `find_model` gives it."""
        import tensorflow as tf
        import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

        self._tf = tf
        self._model = tf.saved_model.load(directory)
        self._signatures = self._model.signatures
        # A signature sorts its arguments by name; the model keeps their order.
        self.columns = [name.decode() for name in self._model.text_columns().numpy()]

    def predict(self, rows: Iterable[tuple[str, ...]]) -> Iterator[Prediction]:
        """Predicts texts in the order of the task's columns.

        Raises:
          UsageError: The model takes another number of texts.
        """
        for chunk in _chunks(rows):
            for texts in chunk:
                self._check_number(texts)
            yield from self.predict_batch(chunk)

    def predict_batch(self, batch: Sequence[tuple[str, ...]]) -> list[Prediction]:
        """Predicts texts by one call of the signature `serving_default`."""
        columns = zip(self.columns, zip(*batch, strict=True), strict=True)
        inputs = {name: self._tf.constant(texts) for name, texts in columns}
        outputs = self._signatures["serving_default"](**inputs)
        return list(_read_outputs(batch, outputs))

    def predict_examples(self, batch: Sequence[bytes]) -> list[Prediction]:
        """Predicts serialized `tf.Example`s by the signature `serve_examples`.

        Args:
          batch: Examples as the model was trained on, of text or of tokens.

        Returns:
          Their predictions, without texts.
        """
        examples = self._tf.constant(batch)
        outputs = self._signatures["serve_examples"](examples=examples)
        return list(_read_outputs([()] * len(batch), outputs))

    def predict_rows(
        self, rows: Iterable[tuple[str, dict[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        """Predicts rows of a file, and gives each with its prediction's columns.

        Args:
          rows: Where each stands, and its values by column.

        Raises:
          UsageError: A row lacks a column, or it is no text.
        """
        kept, read = itertools.tee(rows)
        texts = (self._texts(where, row) for where, row in read)
        for (_, row), prediction in zip(kept, self.predict(texts), strict=True):
            yield {**row, **as_columns(prediction)}

    def _check_number(self, texts: tuple[str, ...]) -> None:
        if len(texts) == len(self.columns):
            return
        if len(self.columns) == 1:
            raise UsageError(
                f"the model takes single texts ({self.columns[0]}), not pairs; give "
                "them with --text TEXT"
            )
        raise UsageError(
            f"the model takes pairs ({' and '.join(self.columns)}), not single texts; "
            "give them with --pair A B"
        )

    def _texts(self, where: str, row: dict[str, Any]) -> tuple[str, ...]:
        texts = []
        for column in self.columns:
            text = row.get(column)
            if not isinstance(text, str):
                raise UsageError(
                    f"{where}: column {column} is {text!r}; the model wants text in "
                    f"{' and '.join(self.columns)}"
                )
            texts.append(text)
        return tuple(texts)


def _read_outputs(
    rows: Sequence[tuple[str, ...]], outputs: dict[str, Any]
) -> Iterator[Prediction]:
    if "score" in outputs:
        for texts, score in zip(rows, outputs["score"].numpy(), strict=True):
            yield Prediction(texts, float(score))
        return
    names = outputs["class"].numpy()
    probabilities = outputs["probabilities"].numpy()
    for texts, name, row in zip(rows, names, probabilities, strict=True):
        yield Prediction(texts, name.decode(), float(row.max()), row.tolist())


def as_columns(prediction: Prediction) -> dict[str, Any]:
    """Returns what a file gets of a prediction, by column."""
    if isinstance(prediction.value, float):
        return {"prediction": round(prediction.value, _DECIMALS)}
    assert prediction.probability is not None
    return {
        "prediction": prediction.value,
        "probability": round(prediction.probability, _DECIMALS),
    }


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, _ROWS_AT_A_TIME)):
        yield chunk


def _read_rows(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"--input {source} is not a file")
    if path.suffix == ".tsv":
        return (
            (f"{source}:{line}", row) for line, row in examples_lib.read_table(path)
        )
    if path.suffix == ".jsonl":
        return _read_json_lines(path)
    raise UsageError(f"--input {source}: allowed are .tsv and .jsonl")


def _read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = parse_json_row(line)
            except ValueError as error:
                raise UsageError(f"{path}:{number}: {error}") from error
            yield f"{path}:{number}", row


def parse_json_row(line: bytes, encoding: str = "utf-8") -> dict[str, Any]:
    """Returns the row of a line of JSON.

    Raises:
      ValueError: The line is not JSON, not an object or not Unicode text.
    """
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error}") from error
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: 4,301 digits and more
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    # JSON can escape a lone surrogate, which no UTF-8 and no coder of Beam can hold.
    if _SURROGATE.search(text):
        for column, value in row.items():
            try:
                as_json({column: value}).encode()
            except UnicodeEncodeError as error:
                name = column.encode(errors="backslashreplace").decode()
                raise ValueError(
                    f"column {name} is not Unicode text: {error}"
                ) from error
    return row


def _writer(destination: str):  # type: ignore[no-untyped-def]
    suffix = Path(destination).suffix
    if suffix == ".tsv":
        return _write_tsv
    if suffix == ".jsonl":
        return _write_json_line
    raise UsageError(f"--output {destination}: allowed are .tsv and .jsonl")


def _write_json_line(file: Any, row: dict[str, Any], *, is_first: bool) -> None:
    file.write(as_json(row) + "\n")


def _write_tsv(file: Any, row: dict[str, Any], *, is_first: bool) -> None:
    try:
        if is_first:
            file.write(as_tsv(row) + "\n")
        file.write(as_tsv(row.values()) + "\n")
    except csv.Error as error:
        raise UsageError(
            f"{file.name}: a value has a tab or a line break ({error}), which TSV "
            "cannot hold; write .jsonl"
        ) from error


def as_json(row: dict[str, Any]) -> str:
    """Returns a row as a line of JSON, without its end."""
    return json.dumps(row, ensure_ascii=False)


def as_tsv(values: Iterable[Any]) -> str:
    """Returns values as a line of TSV, unquoted and without its end.

    Raises:
      csv.Error: One has a tab or a line break.
    """
    line = io.StringIO()
    csv.writer(
        line,
        delimiter="\t",
        quoting=csv.QUOTE_NONE,
        quotechar=None,
        lineterminator="\n",
    ).writerow(values)
    return line.getvalue()[:-1]


def _has_model(directory: str) -> bool:
    path = os.path.join(directory, _SAVED_MODEL)
    if "://" not in directory:
        return os.path.isfile(path)
    from tensorflow.io import gfile

    return gfile.exists(path)
