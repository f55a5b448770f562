"""Predictions of a pushed model, for a few pairs or a file of them."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pipeline import data
from pipeline.errors import UsageError

_ROWS_AT_A_TIME = 256
_SAVED_MODEL = "saved_model.pb"


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What the model says of one pair.

    Attributes:
      texts: The pair.
      class_name: The most probable class.
      probability: Its probability.
      probabilities: Those of all classes, in the order of the labels.
    """

    texts: tuple[str, str]
    class_name: str
    probability: float
    probabilities: list[float]


def find_model(directory: str) -> str:
    """Returns the directory of a SavedModel, the newest version if there are several.

    Raises:
      UsageError: There is no SavedModel.
    """
    path = Path(directory)
    if (path / _SAVED_MODEL).is_file():
        return directory
    versions = [p for p in path.glob("*") if p.name.isdigit()]
    for version in sorted(versions, key=lambda p: int(p.name), reverse=True):
        if (version / _SAVED_MODEL).is_file():
            return str(version)
    raise UsageError(
        f"--model {directory} holds no SavedModel; give the directory after `pushed` "
        "in the last line of a run"
    )


def predict_pairs(
    directory: str, pairs: Iterable[tuple[str, str]]
) -> Iterator[Prediction]:
    """Classifies pairs.

    Args:
      directory: A SavedModel, or a directory of its versions.
      pairs: Texts in the order of the task's columns.

    Raises:
      UsageError: There is no SavedModel.
    """
    return _Classifier(find_model(directory)).predict(pairs)


def predict_file(directory: str, source: str, destination: str) -> int:
    """Classifies the pairs of a file, keeping its columns.

    Args:
      directory: A SavedModel, or a directory of its versions.
      source: `.tsv` (with a header, unquoted) or `.jsonl`.
      destination: `.tsv` or `.jsonl`: the source's columns, `prediction` and one
        `probability` a row. It appears when it is whole.

    Returns:
      The number of rows.

    Raises:
      UsageError: There is no SavedModel, or the file lacks a column.
    """
    rows = _read_rows(source)
    write = _writer(destination)
    classifier = _Classifier(find_model(directory))
    incomplete = Path(f"{destination}.incomplete")
    count = 0
    try:
        with open(incomplete, "w", encoding="utf-8", newline="") as file:
            for count, row in enumerate(classifier.predict_rows(rows), 1):
                write(file, row, is_first=count == 1)
        incomplete.replace(destination)
    finally:
        incomplete.unlink(missing_ok=True)
    return count


class _Classifier:
    def __init__(self, directory: str) -> None:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

        self._tf = tf
        self._model = tf.saved_model.load(directory)
        self._signature = self._model.signatures["serving_default"]
        # A signature sorts its arguments by name; the model keeps their order.
        self.columns = [name.decode() for name in self._model.text_columns().numpy()]

    def predict(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Prediction]:
        for chunk in _chunks(pairs):
            texts = zip(*chunk, strict=True)
            outputs = self._signature(
                **{
                    column: self._tf.constant(text)
                    for column, text in zip(self.columns, texts, strict=True)
                }
            )
            names = outputs["class"].numpy()
            probabilities = outputs["probabilities"].numpy()
            for pair, name, row in zip(chunk, names, probabilities, strict=True):
                yield Prediction(pair, name.decode(), float(row.max()), row.tolist())

    def predict_rows(
        self, rows: Iterable[tuple[str, dict[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        kept, read = itertools.tee(rows)
        pairs = (self._pair(where, row) for where, row in read)
        for (_, row), prediction in zip(kept, self.predict(pairs), strict=True):
            yield {
                **row,
                "prediction": prediction.class_name,
                "probability": round(prediction.probability, 6),
            }

    def _pair(self, where: str, row: dict[str, Any]) -> tuple[str, str]:
        texts = [row.get(column) for column in self.columns]
        for column, text in zip(self.columns, texts, strict=True):
            if not isinstance(text, str):
                raise UsageError(
                    f"{where}: column {column} is {text!r}; the model wants text in "
                    f"{' and '.join(self.columns)}"
                )
        first, second = texts
        return str(first), str(second)


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, _ROWS_AT_A_TIME)):
        yield chunk


def _read_rows(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"--input {source} is not a file")
    if path.suffix == ".tsv":
        return ((f"{source}:{line}", row) for line, row in data.read_table(path))
    if path.suffix == ".jsonl":
        return _read_json_lines(path)
    raise UsageError(f"--input {source}: allowed are .tsv and .jsonl")


def _read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise UsageError(f"{path}:{number}: not JSON: {error}") from error
            if not isinstance(row, dict):
                raise UsageError(f"{path}:{number}: not a JSON object")
            yield f"{path}:{number}", row


def _writer(destination: str):  # type: ignore[no-untyped-def]
    suffix = Path(destination).suffix
    if suffix == ".tsv":
        return _write_tsv
    if suffix == ".jsonl":
        return _write_json_line
    raise UsageError(f"--output {destination}: allowed are .tsv and .jsonl")


def _write_json_line(file: Any, row: dict[str, Any], *, is_first: bool) -> None:
    file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _write_tsv(file: Any, row: dict[str, Any], *, is_first: bool) -> None:
    writer = csv.writer(
        file,
        delimiter="\t",
        quoting=csv.QUOTE_NONE,
        quotechar=None,
        lineterminator="\n",
    )
    try:
        if is_first:
            writer.writerow(row)
        writer.writerow(row.values())
    except csv.Error as error:
        raise UsageError(
            f"{file.name}: a value has a tab or a line break ({error}), which TSV "
            "cannot hold; write .jsonl"
        ) from error
