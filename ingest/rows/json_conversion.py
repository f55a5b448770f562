"""Turns JSON that is one value into JSON lines.

    python -m ingest.rows.json_conversion data.json

Data sets are published as an object of splits (CLINC150), of classes (SNIPS), of rows
by id (HateXplain) or of columns (`DataFrame.to_json`), or have their rows under a key.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import statistics
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, TextIO, TypeGuard

from ingest.rows import text_lines
from ingest.rows.formats import stem_of

_LABELS = ("label", "labels", "class", "category", "intent", "target", "sentiment")
_TEXTS = ("text", "sentence", "token", "word", "value")
_TRAIN = ("train", "training")
_CONTAINERS = ("rows", "data", "examples", "records", "items")
_SAMPLE_TEXTS = 200
_LEAST_WORDS = 2  # of a text, on average
_MOST_ENTRIES = 50  # of an object that may be a row, whose values are text
_MOST_JSON_CHARACTERS = 1 << 29
_SHOWN, _SHOWN_CHARACTERS = 5, 30
_SCALARS = (str, int, float, type(None))

# Rows, and the keys that they are under, which may be their labels.
_Found = tuple[list[Any], list[Any] | None]


def advise(file: TextIO, path: str, encoding: str, *, is_one_line: bool) -> str | None:
    """Returns why a file is not JSON lines, and the command that converts it.

    Args:
      file: The file.
      path: Its path.
      encoding: Its encoding.
      is_one_line: Whether it has one line, which may be its only row.

    Returns:
      None if the line is a row.
    """
    text = file.read(_MOST_JSON_CHARACTERS)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not _is_collection(content):
        if is_one_line:
            return None
        jq = "." if text.lstrip()[:1] == "{" else "'.[]'"
        return (
            "this one starts JSON over several lines, or an array; convert it: jq -c "
            f"{jq} IN.json > OUT.jsonl"
        )
    command = f"python -m {__name__} {shlex.quote(path)}"
    if encoding != "utf-8":
        command += f" {encoding}"
    kind = "object" if isinstance(content, dict) else "array"
    splits = convert(content)
    if not splits:
        keys = [textwrap.shorten(str(key), _SHOWN_CHARACTERS) for key in content]
        more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
        return (
            f"this file is one {kind} with {', '.join(keys[:_SHOWN])}{more}; "
            'write its rows, one per line, such as {"text": "A text.", "label": "a"}'
        )
    labels = {str(row.get("label")) for row in splits.get("", [])}
    if len(content) == 1 and [*labels] == [*content]:
        folder = os.path.join(os.path.dirname(path), "")
        return (
            "this file is one object of one class; convert the file of each class, and "
            f"join the results with cat {shlex.quote(folder) if folder else ''}"
            f"*_rows.jsonl > {shlex.quote(f'{folder}all.jsonl')}: {command}"
        )
    target = _target_of(path) + ("" if len(splits) > 1 else ".jsonl")
    return f"this file is one {kind}; convert it, and give {target}: {command}"


def main(path: str, encoding: str = "utf-8") -> None:
    """Writes JSON lines next to a file: a file, or a folder with one for each split."""
    opener = gzip.open if path.lower().endswith(".gz") else open
    with opener(path, "rb") as file, text_lines.decode(file, encoding) as text:
        splits = convert(json.load(text))
    target = _target_of(path)
    if len(splits) > 1:
        os.mkdir(target)
        target += os.sep
    for split, rows in splits.items():
        with open(f"{target}{split}.jsonl", "x", encoding="utf-8") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in rows)


def convert(content: Any) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of JSON by split, or under an empty name if it has no splits.

    Args:
      content: The value. Without rows that have a text, the result is empty.
    """
    splits = {}
    if isinstance(content, dict) and any(key.lower() in _TRAIN for key in content):
        for key, value in content.items():
            rows = _to_rows(_find_rows(value)) if re.fullmatch(r"\w+", key) else None
            if rows:
                splits[key.lower().removesuffix("ing")] = rows
    if len(splits) > 1 and "train" in splits:
        return splits
    rows = _to_rows(_find_rows(content))
    return {"": rows} if rows else {}


def _target_of(path: str) -> str:
    return os.path.join(os.path.dirname(path), stem_of(path) + "_rows")


def _is_collection(content: Any) -> bool:
    """Returns whether a value has rows, and is not a row itself, which has a text."""
    if not isinstance(content, dict):
        return _find_rows(content) is not None
    if len(content) > _MOST_ENTRIES or any(
        _are(content.get(key), dict) for key in _CONTAINERS
    ):
        return True
    scalars = {k: v for k, v in content.items() if isinstance(v, _SCALARS)}
    if len(scalars) == len(content) or any(
        isinstance(value, str) and (" " in value or key.lower() in _TEXTS)
        for key, value in scalars.items()
    ):
        return False
    found = _find_rows(content)
    return found is not None and (not scalars or _to_rows(found) is not None)


def _find_rows(value: Any) -> _Found | None:
    if isinstance(value, list):
        if _are(value, dict) and all(isinstance(row.get("row"), dict) for row in value):
            return [row["row"] for row in value], None  # of Hugging Face's viewer
        return (value, None) if _are(value, dict) or _are(value, list) else None
    if not isinstance(value, dict) or not value:
        return None
    names, table = value.get("columns"), value.get("data")
    if _are(names, str) and _are(table, list):
        return [dict(zip(names, row, strict=False)) for row in table], None
    for key in _CONTAINERS:
        if found := _find_rows(value.get(key)):
            return found
    values = list(value.values())
    if _are(values, dict) and len(values) == 1:
        return _find_rows(values[0])
    if _are(values, dict) or _are(values, list):
        return _find_in_parts(value)
    if _are(values, str) or (_are_scalars(values) and _is_text([*value])):
        return [*value], values  # the label of each text
    usable = [
        found for found in map(_find_rows, values) if found and not _are(found[0], str)
    ]
    return max(usable, key=lambda found: len(found[0]), default=None)


def _find_in_parts(value: dict[str, Any]) -> _Found | None:
    """Finds rows in the columns of a table, or in parts that are rows or have rows."""
    values = list(value.values())
    are_objects = _are(values, dict)
    parts = [[*part.values()] if are_objects else part for part in values]
    cells = _flatten(parts)
    is_regular = bool(cells) and len({*map(len, parts)}) == 1
    if are_objects:  # of pandas, by the numbers of the rows
        is_table = all(map(str.isdecimal, values[0])) and all(
            isinstance(cell, (*_SCALARS, list)) for cell in cells
        )
    else:
        is_table = _are_scalars(cells) and not all(map(_is_text, parts))
        if is_table and _is_text([*value]) and not _is_text(cells):
            return [*value], values  # the labels of each text
    if is_table and is_regular and len(parts) > 1:
        rows = zip(*parts, strict=True)
        return [dict(zip(value, row, strict=True)) for row in rows], None
    if are_objects and not _are(cells, dict):
        return values, None
    if not any(_are(cells, kind) for kind in (str, dict, list)):
        return None
    keys = [key for key, part in zip(value, parts, strict=True) for _ in part]
    return cells, keys


def _to_rows(found: _Found | None) -> list[dict[str, Any]] | None:
    """Returns the rows as objects; None if they have no text.

    A text or a label that is in a list of the row becomes a field, and so does the key
    of the row if it has no label.
    """
    if found is None:
        return None
    rows, keys = found
    is_keyed = keys is not None and _count_values(keys) > 1
    if _are(rows, str):
        return _pair(rows, keys) if _is_text(rows) or is_keyed else None
    if _are(rows, list):
        columns = [list(column) for column in zip(*rows, strict=False)]
        text = max(columns, key=_count_words, default=[])
        others = [c for c in columns if c is not text and _are_scalars(c)]
        labels = min(others, key=_count_values, default=keys)
        return _pair(text, labels) if _is_text(text) else None
    fields: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            fields.setdefault(name, []).append(value)
    flat = {name: v for name, v in fields.items() if _are_scalars(v)}
    texts = [name for name, values in flat.items() if _is_text(values)]
    lists = {name: _flatten(v) for name, v in fields.items() if _are(v, list)}
    words = {name: items for name, items in lists.items() if _are(items, str)}
    has_label = any(n.lower() in _LABELS for n in (*flat, *words) if n not in texts)
    added: dict[str, list[Any]] = {}
    for name in [name for name, items in lists.items() if _are(items, dict)]:
        for field in (*_TEXTS, *_LABELS):
            parts = [[x.get(field) for x in row.get(name) or ()] for row in rows]
            if field in _TEXTS and not texts and _are(_flatten(parts), str):
                added.setdefault("text", list(map("".join, parts)))
            if field in _LABELS and not has_label and _are(_flatten(parts), str | int):
                modes = [statistics.mode(part) if part else None for part in parts]
                added.setdefault("label", modes)
    if not texts and "text" not in added:
        if not lists and keys is None and any(_are(v, str) for v in flat.values()):
            return rows  # of single words
        tokens = max(words, key=lambda name: len(words[name]), default=None)
        if tokens is None or _is_text(words[tokens]):  # several texts in a row
            return None
        del words[tokens]
        added["text"] = [" ".join(row.get(tokens) or ()) for row in rows]
    if keys and not has_label and (is_keyed or len(flat) == len(texts)):
        added.setdefault("label", keys)
    kept = fields if texts else {**flat, **words}
    return [
        {name: row[name] for name in row if name in kept}
        | {name: values[number] for name, values in added.items()}
        for number, row in enumerate(rows)
    ]


def _pair(texts: list[Any], labels: list[Any] | None) -> list[dict[str, Any]] | None:
    if labels is None:
        return None
    pairs = zip(texts, labels, strict=True)
    return [{"text": text, "label": label} for text, label in pairs]


def _flatten(lists: Iterable[Iterable[Any]]) -> list[Any]:
    return [item for part in lists for item in part]


def _are(values: Any, kind: Any) -> TypeGuard[list[Any]]:
    """Returns whether values are a list that is not empty, and all of a type."""
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(value, kind) for value in values)
    )


def _are_scalars(values: Iterable[Any]) -> bool:
    return all(isinstance(value, _SCALARS) for value in values)


def _count_values(values: Iterable[Any]) -> int:
    return len({*map(str, values)})


def _count_words(values: Sequence[Any]) -> float:
    """Returns the number of words of a text, on average."""
    sample = values[:_SAMPLE_TEXTS]
    texts = [value for value in sample if isinstance(value, str)]
    return sum(len(re.findall(r"\w+", text)) for text in texts) / max(1, len(sample))


def _is_text(values: Any) -> bool:
    return _are(values, str) and _count_words(values) >= _LEAST_WORDS


if __name__ == "__main__":
    main(*sys.argv[1:])
