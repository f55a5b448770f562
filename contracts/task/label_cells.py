"""The spellings of labels in files: of one, and of all labels of a row in one cell.

Such a cell is a list, or text: a list as JSON, Python, NumPy or PostgreSQL write it, or
names with a separator.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import warnings
from collections.abc import Iterable
from typing import Any

SEPARATOR = "|"  # of written labels
PREFIX = "__label__"  # of each label in fastText's files, which separates them
ADVICE = "write the names of the row's labels, such as `a|b`, or as a list"
_HAS_NULL = "a list with a null; leave it out"
_FLAGS = {"0", "1", "0.0", "1.0", "false", "true"}
_ANSWERS = {"no", "yes"}  # flags, if a cell repeats one; else they may be labels
_NULLS = {"nan", "NaN", "None", "null", "<NA>", "NaT"}
_STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
# The print of a container, such as `array([0, 1])` or `dict_keys(['a'])`.
_CALL = re.compile(
    r"[A-Za-z_][\w.]*\(\s*([\[{(].*[\]})]|)\s*(?:,\s*\w+=[^()]*)?\)",
    re.DOTALL,
)
_SCALAR = re.compile(rf"\bnp\.\w+\(({_STRING.pattern}|[-+.\w]+)\)", re.DOTALL)
# NumPy writes a list without commas; Python joins texts that have none between them.
_ITEM = r"(?:''|[-+.\de]+|nan|None)"
_ARRAY = re.compile(rf"\[\s*{_ITEM}(?:\s+{_ITEM})+\s*\]")
_JOINED = re.compile(r"''\s*''")
_CUT = re.compile(r"[\[{(]\s*['\"{\[]")  # the start of a list or of an object
_WHOLE_NUMBER = re.compile(r"([+-]?[0-9]{1,300})(\.0*)?")
_Container = list | tuple | set | frozenset | dict


class CellError(ValueError):
    """A cell does not hold labels. The message follows the name of the column."""


@functools.lru_cache(maxsize=4096)  # rows repeat few labels
def canonical_label(text: str) -> str:
    """Returns the one spelling of a class: `1` for `1.0`, `01` and ` 1`.

    Programs write one value in several ways: pandas writes whole numbers as floats if
    one of them is missing, spreadsheets write `TRUE`, and fastText `__label__ham`.
    """
    text = text.strip().removeprefix(PREFIX)
    if text.lower() in ("true", "false"):
        return text.lower()
    match = _WHOLE_NUMBER.fullmatch(text)
    return str(int(match[1])) if match else text


def to_text(value: Any) -> str:
    """Returns a label as text in CSV: `true` for True, `1` for the float 1.0."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def read_cell(value: Any, separator: str) -> list[Any]:
    """Returns the labels of a cell: names or indices, each once.

    Args:
      value: A list, or text. `[]`, `['']` and an empty text mean no label.
      separator: Separates the labels of a text that is not a list. Blanks around it,
        and a separator at either end, do not matter.

    Raises:
      CellError: See `parse_list`; or the labels look like 0 or 1 for each label.
    """
    labels = parse_list(value)
    if labels is None:
        labels = _split(value, separator) if isinstance(value, str) else [value]
    flags = {str(label).strip().lower() for label in labels}
    if len(flags) < len(labels) and (flags <= _FLAGS or flags <= _ANSWERS):
        raise CellError(describe_flags(value))
    return list(dict.fromkeys(labels))


def parse_list(value: Any) -> list[Any] | None:
    """Returns the names or indices in a list; None if the value is not a list.

    Args:
      value: A list, or text.

    Raises:
      CellError: The value is an object; or it is a list that cannot be read, or has
        other values than texts and whole numbers.
    """
    parsed = _parse(value.strip()) if isinstance(value, str) else value
    if not isinstance(parsed, _Container):
        return None
    if isinstance(parsed, dict):
        if parsed:
            raise CellError(f"is {_show(value)}, an object; {ADVICE}")
        parsed = []  # `{}` for an empty set
    is_set = isinstance(parsed, set | frozenset)
    items = sorted(parsed, key=str) if is_set else list(parsed)
    for item in items:
        problem = None
        if item is None or item != item:
            problem = _HAS_NULL
        elif isinstance(item, dict):
            problem = f"a list of objects; {ADVICE}"
        elif isinstance(item, _Container):
            problem = f"a list of lists; {ADVICE}"
        elif isinstance(item, float):
            problem = f"a list of numbers with decimals, not of labels; {ADVICE}"
        if problem:
            raise CellError(f"is {_show(value)}, {problem}")
    items = [item.strip() if isinstance(item, str) else item for item in items]
    return items if any(item != "" for item in items) else []


@functools.lru_cache(maxsize=4096)  # rows repeat few combinations
def join(labels: tuple[str, ...]) -> str:
    """Returns a cell that `read_cell` reads with `SEPARATOR`.

    It has names with the separator between them, or a JSON list where a name would be
    read differently, such as a name that contains the separator.
    """
    text = SEPARATOR.join(labels)
    try:
        is_read = read_cell(text, SEPARATOR) == [*labels]
    except CellError:
        is_read = False
    return text if is_read else json.dumps(labels, ensure_ascii=False)


def are_flags(labels: Iterable[Any]) -> bool:
    """Returns whether all labels look like 0 or 1."""
    return _FLAGS.issuperset(str(label).strip().lower() for label in labels)


def describe_flags(value: Any, advice: str = "") -> str:
    """Returns why a cell that may be 0 or 1 for each label does not hold labels.

    Args:
      value: The cell.
      advice: What else would make it labels.
    """
    return (
        f"is {_show(value)}, which looks like 0 or 1 for each label; write the names "
        f"or the indices of the labels that the row has{advice}, or a column of 0 and "
        "1 for each label"
    )


def _parse(text: str) -> Any:
    """Returns the value of a text that is a list or an object; None for other texts."""
    if text[:1] in ("'", '"'):  # JSON in JSON
        text = _evaluate(text)
        return _parse(text.strip()) if isinstance(text, str) else None
    if call := _CALL.fullmatch(text):
        text = call[1] or "[]"
    if text[:1] not in ("[", "{", "("):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    text = _SCALAR.sub(r"\1", text)
    without_names = _STRING.sub("''", text)
    if "..." in without_names:
        raise CellError(f"is {_show(text)}, a list that NumPy has shortened; {ADVICE}")
    if _ARRAY.fullmatch(without_names):
        items = re.findall(rf"{_STRING.pattern}|[^\s\[\]]+", text, re.DOTALL)
        return [_evaluate(item) for item in items]
    if _JOINED.search(without_names):
        raise CellError(f"is {_show(text)}, a list without a comma between two names")
    value = _evaluate(text)
    if value is not None:
        return value
    ends = without_names[0] + without_names[-1]
    content = without_names[1:-1]
    if ends == "{}" and ":" in content:
        raise CellError(f"is {_show(text)}, an object; {ADVICE}")
    brackets = r"[\[\]{}()]" if ends == "()" else r"[\[\]{}]"
    if ends in ("[]", "{}", "()") and not re.search(brackets, content):
        names = [name.strip() for name in content.split(",")]
        if not _NULLS.isdisjoint(names):
            raise CellError(f"is {_show(text)}, {_HAS_NULL}")
        if ends != "()" or len(names) > 1:
            return _split(text[1:-1], ",")  # names without quotes
    if _CUT.match(text):
        raise CellError(f"is {_show(text)}, a list that cannot be read; {ADVICE}")
    return None


def _evaluate(text: str) -> Any:
    """Returns the value of a Python literal; None if it is not one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of unknown escapes
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _split(text: str, separator: str) -> list[str]:
    """Returns the labels in a text, without the quotes of a name."""
    separator = separator.strip() or separator
    between = r"\s+" if separator == " " else re.escape(separator)
    if '"' in text or "'" in text:
        pattern = rf"""\s*("[^"]*"|'[^']*'|.*?)\s*(?:{between}|\Z)"""
        parts: Iterable[str] = re.findall(pattern, text, re.DOTALL)
    else:
        parts = re.split(between, text)
    # `__label__a, __label__b`
    more = ",;|" if separator == PREFIX else ""
    names = [_unquote(part.strip().rstrip(more).rstrip()) for part in parts]
    if separator.isspace() or more:
        return list(filter(None, names))
    filled = [index for index, name in enumerate(names) if name]
    return names[filled[0] : filled[-1] + 1] if filled else []


def _unquote(name: str) -> str:
    quote = name[:1]
    if len(name) < 2 or quote not in ("'", '"') or name[-1] != quote:
        return name
    try:
        return str(json.loads(name)).strip()
    except ValueError:
        return name[1:-1].strip()


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
