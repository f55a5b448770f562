"""Writes the command that turns JSON that is one value into JSON lines.

Data sets are published as an object of splits (CLINC150), of classes (SNIPS), of rows
by id (HateXplain) or of columns (`DataFrame.to_json`), or have their rows under a key.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TextIO, TypeGuard

from ingest.rows.formats import stem_of

_LABELS = ("label", "labels", "class", "category", "intent", "target", "sentiment")
_TEXTS = ("text", "sentence", "token", "word", "value")
_TRAIN = ("train", "training")
_CONTAINERS = ("rows", "data", "examples", "records", "items")
_SAMPLE_ROWS = 200
_LEAST_WORDS = 2  # of a text, on average
_MOST_ENTRIES = 50  # of an object that may be a row, whose values are text
_MOST_CHARACTERS = 700
_MOST_JSON_CHARACTERS = 1 << 29
_SHOWN, _SHOWN_CHARACTERS = 5, 30
_SCALARS = (str, int, float, type(None))


@dataclasses.dataclass(frozen=True)
class _Rows:
    """The rows in a JSON value.

    Attributes:
      loops: The `for` of a comprehension, with each row as `r`.
      rows: The first rows.
      has_key: Whether `k` is a key that may be the label of `r`.
      keys: The number of such keys.
    """

    loops: str
    rows: list[Any]
    has_key: bool = False
    keys: int = 0


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
    if is_one_line and not is_collection(content):
        return None
    if is_collection(content) and not _are_objects(content):
        kind = "object" if isinstance(content, dict) else "array"
        found = find_command(content, path, encoding)
        if found:
            command, target = found
            rows = _find_rows(content, "d")
            if rows and rows.keys == 1 and '"label": k' in command:
                folder = os.path.join(os.path.dirname(path), "")
                joined = shlex.quote(f"{folder}all.jsonl")
                return (
                    "this file is one object of one class; convert the file of each "
                    "class, and join the results with "
                    f"cat {shlex.quote(folder) if folder else ''}*_rows.jsonl > "
                    f"{joined}: {command}"
                )
            return f"this file is one {kind}; convert it, and give {target}: {command}"
    if isinstance(content, dict) and is_collection(content):
        keys = [textwrap.shorten(key, _SHOWN_CHARACTERS) for key in content]
        more = f" and {len(keys) - _SHOWN:,} more" if len(keys) > _SHOWN else ""
        return (
            f"this file is one object with the keys {', '.join(keys[:_SHOWN])}{more}; "
            'write its rows, one per line, such as {"text": "A text.", "label": "a"}'
        )
    jq = "." if text.lstrip()[:1] == "{" else "'.[]'"
    return (
        "this one starts JSON over several lines, or an array; convert it: jq -c "
        f"{jq} IN.json > OUT.jsonl"
    )


def is_collection(content: Any) -> bool:
    """Returns whether a value has rows, and is not a row itself, which has a text."""
    found = _find_rows(content, "d")
    if not isinstance(content, dict):
        return found is not None
    if len(content) > _MOST_ENTRIES or any(
        _are(content.get(key), dict) for key in _CONTAINERS
    ):
        return True
    scalars = {k: v for k, v in content.items() if isinstance(v, _SCALARS)}
    if len(scalars) == len(content):
        return False
    if any(
        isinstance(value, str) and (" " in value or key.lower() in _TEXTS)
        for key, value in scalars.items()
    ):
        return False
    return found is not None and (not scalars or _describe_row(found) is not None)


def _are_objects(content: Any) -> bool:
    """Returns whether a value is an array of rows, which need no change."""
    found = _find_rows(content, "d") if isinstance(content, list) else None
    return found is not None and (found.loops, _describe_row(found)) == (
        "for r in d",
        "r",
    )


def find_command(content: Any, path: str, encoding: str) -> tuple[str, str] | None:
    """Returns a command that converts JSON, and the file or folder that it writes.

    Args:
      content: The content of the file.
      path: The file.
      encoding: Its encoding.

    Returns:
      None if the content has no rows with a text, or the command would be long.
    """
    opened = f'{json.dumps(path)}, "rb"'
    if encoding != "utf-8":
        opened = f'{json.dumps(path)}, "rt", encoding="{encoding}"'
    imports = ["json"]
    reader = "open"
    if path.lower().endswith(".gz"):
        imports.append("gzip")
        reader = "gzip.open"
    target = os.path.join(os.path.dirname(path), stem_of(path) + "_rows")
    names = _find_splits(content)
    found = _find_rows(
        content[names[0]] if names else content, "d[s]" if names else "d"
    )
    row = found and _describe_row(found)
    if not found or not row:
        return None
    if "statistics." in row:
        imports.append("statistics")
    lines = f'writelines(json.dumps({row}) + "\\n" {found.loops})'
    if names:
        imports.append("os")
        writing = f"os.mkdir({json.dumps(target)}); "
        files = {name: name.lower().removesuffix("ing") for name in names}
        file = f'{json.dumps(target + "/")} + f + ".jsonl"'
        loop = f"for s, f in {json.dumps(files)}.items()"
        writing += f'[open({file}, "x").{lines} {loop}]'
    else:
        target += ".jsonl"
        writing = f'open({json.dumps(target)}, "x").{lines}'
    code = f"import {', '.join(imports)}; d = json.load({reader}({opened})); {writing}"
    command = f"python3 -c {shlex.quote(code)}"
    return (command, target) if len(command) <= _MOST_CHARACTERS else None


def _find_splits(content: Any) -> list[str]:
    """Returns the keys with rows, that of `train` first; empty without it."""
    if not isinstance(content, dict):
        return []
    first = next((key for key in content if key.lower() in _TRAIN), "")
    train = _find_rows(content.get(first), "")
    if train is None:
        return []
    others = {
        key
        for key, value in content.items()
        if (rows := _find_rows(value, ""))
        and rows.loops == train.loops
        and re.fullmatch(r"\w+", key)
    }
    return [first, *sorted(others - {first})]


def _find_rows(value: Any, name: str) -> _Rows | None:
    """Finds the rows of a value that is the variable `name`."""
    if isinstance(value, list):
        sample = value[:_SAMPLE_ROWS]
        if _are(sample, dict) and all(isinstance(r.get("row"), dict) for r in sample):
            rows = [row["row"] for row in sample]  # of Hugging Face's viewer
            return _Rows(f'for r in (x["row"] for x in {name})', rows)
        if _are(sample, dict) or _are(sample, list):
            return _Rows(f"for r in {name}", sample)
        return None
    if not isinstance(value, dict) or not value:
        return None
    for key in _CONTAINERS:
        if key not in value or (key == "data" and "columns" in value):
            continue
        if found := _find_rows(value[key], f"{name}[{json.dumps(key)}]"):
            return found
    names, table = value.get("columns"), value.get("data")
    if _are(names, str) and _are(table, list):
        zipped = f'(dict(zip({name}["columns"], x)) for x in {name}["data"])'
        rows = [dict(zip(names, row, strict=False)) for row in table[:_SAMPLE_ROWS]]
        return _Rows(f"for r in {zipped}", rows)
    values = list(value.values())
    if _are(values, dict):
        return _find_in_objects(value, name)
    if _are(values, list):
        return _find_in_lists(value, name)
    if _are(values, str) or (
        all(isinstance(v, _SCALARS) for v in values) and _is_text([*value])
    ):
        return _Rows(f"for r, k in {name}.items()", [*value], True, len({*values}))
    nested = [
        _find_rows(item, f"{name}[{json.dumps(key)}]") for key, item in value.items()
    ]
    usable = [rows for rows in nested if rows and not _are(rows.rows, str)]
    return max(usable, key=lambda rows: len(rows.rows), default=None)


def _find_in_objects(value: Mapping[str, dict[str, Any]], name: str) -> _Rows | None:
    values = list(value.values())
    first = values[0]
    if len(values) == 1 and (key := next(iter(value))):
        return _find_rows(first, f"{name}[{json.dumps(key)}]")
    indices = [*first]
    cells = [cell for column in values for cell in column.values()]
    if (
        indices
        and all(map(str.isdecimal, indices))
        and all(len(column) == len(first) for column in values)
        and all(isinstance(cell, (*_SCALARS, list)) for cell in cells)
    ):
        columns = f"(c.values() for c in {name}.values())"
        rows = [
            dict(zip(value, row, strict=True))
            for row in zip(*(column.values() for column in values), strict=True)
        ]
        return _Rows(
            f"for r in (dict(zip({name}, x)) for x in zip(*{columns}))",
            rows[:_SAMPLE_ROWS],
        )
    if _are(cells, dict):  # rows by id, by class
        rows = [row for inner in values for row in [*inner.values()][:_SAMPLE_ROWS]]
        loops = f"for k, v in {name}.items() for r in v.values()"
        return _Rows(loops, rows, True, len(values))
    return _Rows(f"for r in {name}.values()", values[:_SAMPLE_ROWS])


def _find_in_lists(value: Mapping[str, list[Any]], name: str) -> _Rows | None:
    lists = [items for items in value.values() if items]
    items = [item for part in lists for item in part[:_SAMPLE_ROWS]]
    sizes = {len(part) for part in value.values()}
    if items and all(isinstance(item, _SCALARS) for item in items):
        if _is_text([*value]) and not _is_text(items):  # the labels of each text
            return _Rows(f"for r, k in {name}.items()", [*value], True, len({*items}))
        are_texts = [_is_text(part[:_SAMPLE_ROWS]) for part in lists]
        if len(sizes) == 1 and len(lists) > 1 and not all(are_texts):
            rows = [
                dict(zip(value, row, strict=True))
                for row in zip(*value.values(), strict=True)
            ]
            zipped = f"(dict(zip({name}, x)) for x in zip(*{name}.values()))"
            return _Rows(f"for r in {zipped}", rows[:_SAMPLE_ROWS])
        if not _are(items, str):
            return None
    elif not _are(items, dict) and not _are(items, list):
        return None
    loops = f"for k, v in {name}.items() for r in v"
    return _Rows(loops, items, True, len(value))


def _describe_row(found: _Rows) -> str | None:
    """Returns the code of a row; None if no text or no label is found."""
    rows = found.rows
    label = "k" if found.has_key else None
    if _are(rows, str):
        return _row("r", label) if _is_text(rows) or found.keys > 1 else None
    if _are(rows, list):
        return _describe_list(rows, label)
    fields: dict[str, list[Any]] = {}
    for row in rows:
        for key, value in row.items():
            fields.setdefault(key, []).append(value)
    scalars = [
        key for key in fields if all(isinstance(v, _SCALARS) for v in fields[key])
    ]
    texts = [key for key in scalars if _is_text(fields[key])]
    lists = [key for key in fields if _are(fields[key], list)]
    names = [key for key in lists if _are(_flatten(fields[key]), str)]
    rest = [key for key in scalars if key not in texts]
    has_label = any(key.lower() in _LABELS for key in rest + names)
    is_flat = len(scalars + names) == len(fields) and (texts or not names)
    has_strings = any(isinstance(v, str) for key in scalars for v in fields[key])
    if found.keys > 1 and texts and not has_label:
        return (
            '{**r, "label": k}' if is_flat else _row(_get(texts[0], fields, rows), "k")
        )
    is_row = texts and (rest or names or len(texts) > 1)
    if is_row or (is_flat and has_strings and not found.has_key):
        return "r"
    for key in scalars + names:
        if key.lower() in _LABELS:
            label = _get(key, fields, rows)
    text = _get(texts[0], fields, rows) if texts else None
    objects = [key for key in lists if _are(_flatten(fields[key]), dict)]
    for key in objects:
        inner = [*_flatten(fields[key])]
        for field in _TEXTS:
            if text is None and all(isinstance(x.get(field), str) for x in inner):
                parts = f"x[{json.dumps(field)}] for x in {_get(key, fields, rows)}"
                text = f'"".join({parts})'
        for field in _LABELS:
            if label in (None, "k") and all(
                isinstance(x.get(field), str | int) for x in inner
            ):
                parts = f"x[{json.dumps(field)}] for x in {_get(key, fields, rows)}"
                label = f"statistics.mode({parts})"
    if text is None and names:
        tokens = max(names, key=lambda key: len([*_flatten(fields[key])]))
        if _is_text(_flatten(fields[tokens])):
            return None  # several texts in a row
        text = f'" ".join({_get(tokens, fields, rows)})'
    if label in (None, "k") and rest and not found.has_key:
        label = _get(
            min(rest, key=lambda key: len({*map(str, fields[key])})), fields, rows
        )
    return _row(text, label) if text else None


def _describe_list(rows: Sequence[list[Any]], label: str | None) -> str | None:
    """Returns the code of a row that is a list: a text, and maybe its label."""
    columns = [[*column] for column in zip(*rows, strict=False)]
    texts = [index for index, column in enumerate(columns) if _is_text(column)]
    if not texts:
        return None
    text = max(texts, key=lambda index: _count_words(columns[index]))
    others = [
        index
        for index, column in enumerate(columns)
        if index != text and all(isinstance(value, _SCALARS) for value in column)
    ]
    if others:
        fewest = min(others, key=lambda index: len({*map(str, columns[index])}))
        label = f"r[{fewest}]"
    return _row(f"r[{text}]", label)


def _row(text: str, label: str | None) -> str | None:
    return f'{{"text": {text}, "label": {label}}}' if label else None


def _get(key: str, fields: Mapping[str, Sequence[Any]], rows: Sequence[Any]) -> str:
    name = json.dumps(key)
    return f"r[{name}]" if len(fields[key]) == len(rows) else f"r.get({name})"


def _flatten(lists: Sequence[Any]) -> list[Any]:
    return [item for part in lists for item in part]


def _are(values: Any, kind: type) -> TypeGuard[list[Any]]:
    """Returns whether values are a list that is not empty, and all of a type."""
    return (
        isinstance(values, list)
        and bool(values)
        and all(isinstance(value, kind) for value in values)
    )


def _count_words(values: Sequence[Any]) -> float:
    texts = [value for value in values if isinstance(value, str)]
    return sum(len(re.findall(r"\w+", text)) for text in texts) / max(1, len(values))


def _is_text(values: Sequence[Any]) -> bool:
    return _are(values, str) and _count_words(values) >= _LEAST_WORDS
