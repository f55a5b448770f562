"""Guesses a task from the columns of a data set."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from contracts import metrics
from contracts.errors import UsageError
from contracts.row_values import FLAGS
from contracts.task import label_cells
from contracts.task.definition import TaskConfig
from contracts.task.label_cells import canonical_label
from pipeline.config.recipe import make_task
from pipeline.onboarding.columns import (
    LISTS,
    MOST_LABELS,
    MOST_VALUES,
    Column,
)

Kind = Literal["classes", "score", "multilabel"]

# The first and the second text of a pair.
_PAIRS = (
    *(("sentence1", "sentence2"), ("question1", "question2"), ("text1", "text2")),
    *(("text_a", "text_b"), ("sentence_a", "sentence_b"), ("premise", "hypothesis")),
    *(("question", "sentence"), ("question", "answer"), ("question", "context")),
    *(("query", "document"), ("query", "passage"), ("query", "title")),
    *(("claim", "evidence"), ("headline", "body")),
)
# Names of a pair differ in their ends only.
_PAIR_ENDS = re.compile(
    r"(.*?)(?:(1|a|one|first|left)|(2|b|two|second|right))", re.IGNORECASE
)
_LABEL_NAMES = (
    *("label", "labels", "class", "category", "target", "y", "sentiment", "intent"),
    *("topic", "score", "rating", "stars", "similarity", "gold_label", "quality"),
    *("is_duplicate", "polarity", "emotion", "grade", "points", "mark"),
)
# A column with another usual name may be one of several labels.
_CLEAR_LABEL_NAMES = ("label", "labels", "class", "target", "y", "gold_label")
_NEGATIVE_NAMES = (
    *("0", "-1", "no", "n", "false", "neg", "negative", "ham", "bad", "nein", "non"),
    *("negativ", "falsch", "schlecht"),
)
# Zero width and other format characters, and the selectors of a character's variant.
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe0e\ufe0f\ufeff]"
)
_DATE = re.compile(r"\d+[-./]\d+[-./]\d+")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_SHOWN = 6
_SHOWN_CHARACTERS = 60
_MOST_SHOWN = 500  # characters of the names of all columns
_LEAST_FLAGS = 3  # that are taken for labels; one of two may be a feature
_MOST_LABELS_WITHOUT_A_NAME = 50
_MOST_NUMBERS = 20  # that are taken for classes without a usual name of a label
_STRONG_WORDS = 4.0
_MUCH_LONGER = 2.0  # the text is this many times as long as any other column
CHOSEN = "chosen by you"
_BALANCED = 0.4  # least share of the smaller of two classes for the metric accuracy
_LEARNED = 0.1  # of the gap between the majority-class baseline and 1


@dataclasses.dataclass(frozen=True)
class Guess:
    """A task, and the reason of each choice."""

    task: TaskConfig
    reasons: dict[str, str]


def guess_task(
    columns: dict[str, Column],
    *,
    text: Sequence[str] = (),
    label: str | None = None,
    kind: Kind | None = None,
    classes: Sequence[str] | None = None,
    separator: str | None = None,
    taken: Mapping[str, str] = MappingProxyType({}),
    class_names: Callable[[str], dict[str, str]] = lambda label: {},
    has_header: bool = True,
) -> Guess:
    """Guesses the task of a data set.

    Args:
      columns: Its columns.
      text: The text columns; empty guesses them, as None guesses what follows.
      label: The label column.
      kind: Whether the label is a class, a score, or any number of labels.
      classes: The names of the classes.
      separator: What separates the labels of a row.
      taken: The argument or setting that names each column that is neither text nor
        label.
      class_names: Returns the names of a column's classes by label, if the source has
        them.
      has_header: Whether the names are the first line of a file.

    Raises:
      UsageError: A named column does not exist, or several guesses are equally
        good.
    """
    named = [*(("text", name) for name in text), ("label", label)]
    for setting, column_name in [*named, *((taken[name], name) for name in taken)]:
        if column_name is not None and column_name not in columns:
            raise UsageError(
                setting,
                f"no column is called {column_name}",
                _join_names(columns),
                name="E-column-missing",
            )
    if len(text) > 2:
        raise UsageError(
            "text",
            f"{len(text)} columns",
            "one column, or the two of a pair",
            name="E-options-conflict",
        )
    if twice := [name for name, count in Counter([*text, label]).items() if count > 1]:
        raise UsageError(
            "text",
            f"`text` and `label` name {twice[0]} twice",
            advice="name different columns",
            name="E-options-conflict",
        )
    chosen_keys = {"task.text_columns": text, "task.label_column": label}
    reasons = {key: CHOSEN for key, choice in chosen_keys.items() if choice}
    free = {name: c for name, c in columns.items() if name not in taken}
    texts = list(text)
    try:
        texts = texts or _guess_texts(free, label, reasons)
        others = {name: column for name, column in free.items() if name not in texts}
        labels = [label] if label else _guess_labels(others, kind, classes, reasons)
    except UsageError:
        if has_header and not text and any(map(_is_sentence, columns)):
            raise _refuse_row_as_header(columns, texts, []) from None
        raise
    # A file without a header: its first row was read as names.
    is_value = any(name in (columns[name].values or ()) for name in labels)
    is_sentence = not text and any(map(_is_sentence, texts))
    if has_header and (is_value or is_sentence):
        raise _refuse_row_as_header(columns, texts, labels)
    settings: dict[str, Any] = {"text_columns": texts, "label_column": labels[0]}
    default_id = TaskConfig().id_column
    has_ids = default_id not in columns or columns[default_id].holds_ids
    if default_id in (*texts, *labels) or not has_ids:
        number = "row_number"
        while number in columns:
            number += "_"
        settings["id_column"] = number
        why = "is a column of the task" if has_ids else "holds no whole numbers"
        reasons["task.id_column"] = f"{default_id} {why}"
    for name in texts:
        if columns[name].missing:
            reasons["task.text_columns"] += f"; {_describe_missing(columns[name])}"
    label, *more = labels
    column, source_names = columns[label], class_names(label)
    may_be_list = kind in (None, "multilabel") or not column.values
    if not more and may_be_list and (problem := column.problem):
        raise _refuse_label(column, *problem.split("; ", 1))
    has_names = kind in (None, "multilabel") and column.separator is not None
    if more or has_names or kind == "multilabel":
        if more:
            settings |= _guess_flags(columns, labels, reasons)
        else:
            settings |= _guess_names(column, separator, classes, source_names, reasons)
        reasons["task.metric"] = "it counts every label of a row"
        return Guess(make_task({**settings, "kind": "multilabel"}), reasons)
    if column.missing:
        reasons["task.label_column"] += f"; {_describe_missing(column)}"
    if column.holds_lists and (kind is None or not column.values):
        if LISTS not in column.names:
            raise _refuse_names(column, LISTS)
        how = "choose `kind=classes`" if column.values else "write names without lists"
        raise _refuse_label(
            column,
            "has a list of one name in each row, which is one class",
            f"{how}, or choose any number of labels with `kind=multilabel`",
        )
    rows = column.labels or {}
    counts = {source_names.get(name, name): rows[name] for name in rows}
    if not column.filled:
        raise _refuse_label(column, "has no value", "name another column")
    if classes is not None and column.values is None:
        settings["labels"] = "name"
        counts = dict.fromkeys(classes, 1)  # too many values to be counted
    elif classes is not None:
        chosen = set(map(canonical_label, classes))
        known = {
            name: count
            for name, count in (counts | column.missing).items()
            if canonical_label(name) in chosen
        }
        # New names for indices; otherwise, rows of other labels are bad rows.
        is_renamed = not known and (column.are_indices or bool(source_names))
        if not known and not is_renamed:
            raise _refuse_classes(classes, column, _describe(column))
        settings["labels"] = "index" if is_renamed else "name"
        counts = counts if is_renamed else known
    elif source_names:
        classes = list(source_names.values())
        settings["labels"] = "name"
        reasons["task.classes"] = "the names in the data set"
    elif (kind or _guess_kind(column)) == "score":
        if not column.is_numeric or not column.low < column.high:
            raise _refuse_label(
                column,
                "cannot be a score: its values are not numbers, or they are all equal",
                "choose `kind=classes`, or name another column",
            )
        low, high = float(math.floor(column.low)), float(math.ceil(column.high))
        settings |= {
            "label_range": [low, high],
            "metric": metrics.deciding("regression")[0],
        }
        reasons["task.label_range"] = "the lowest and the highest label"
        reasons["task.metric"] = "the mean of both correlations, as in GLUE"
        return Guess(make_task(settings), reasons)
    else:
        # Names with a comma may be one class.
        if kind is None and (crowded := column.crowded - {","}):
            raise _refuse_names(column, min(crowded))
        if kind is None and (unclear := column.unclear_separator) is not None:
            names = _sort(column.names[unclear].first)
            raise _refuse_label(
                column,
                f"has {_describe_count(column)}, which {_name_separator(unclear)} "
                f"separates into {len(names)} names ({', '.join(names[:_SHOWN])}"
                f"{', ...' * (len(names) > _SHOWN)})",
                f"if a row has several labels, add `label={label}` `kind=multilabel`, "
                f"or if each value is one class, `label={label}` `kind=classes`",
            )
        classes = _guess_classes(column, counts, reasons)
        settings["labels"] = "name"
    share = min(counts.values()) / sum(counts.values())
    is_balanced = share >= _BALANCED * 2 / len(counts)
    why = "" if is_balanced else ", which accuracy hardly reflects"
    reasons["task.metric"] = f"the smallest class has {share:.0%} of the rows{why}"
    settings |= {"classes": classes, "metric": "accuracy" if is_balanced else "f1"}
    return Guess(make_task(settings), reasons)


def _join_names(columns: Iterable[str]) -> str:
    return textwrap.shorten(", ".join(columns), _MOST_SHOWN, placeholder=" ...")


def _is_sentence(name: str) -> bool:
    return len(name.split()) > _STRONG_WORDS


def _refuse_row_as_header(
    columns: Iterable[str], texts: list[str], labels: list[str]
) -> UsageError:
    names = [f"column{number}" for number, _ in enumerate(columns, start=1)]
    for kind, found in (("text", texts), ("label", labels)):
        for number, name in enumerate(found, start=1):
            index = list(columns).index(name)
            names[index] = f"{kind}{number}" if len(found) > 1 else kind
    shown = ", ".join(textwrap.shorten(name, _SHOWN_CHARACTERS) for name in columns)
    return UsageError(
        "columns",
        f"the first line is {shown}, which looks like a row",
        advice="if the file has no header, name its columns with "
        f"`columns={','.join(names)}`; else choose columns with `text` and `label`",
        name="E-dialect-unclear",
    )


def _refuse_label(
    column: Column, got: str, advice: str, allowed: str | None = None
) -> UsageError:
    return UsageError(
        "label", f"{column.name} {got}", allowed, advice, name="E-label-refused"
    )


def _refuse_columns(setting: str, got: str, advice: str | None) -> UsageError:
    return UsageError(setting, got, advice=advice, name="E-column-unclear")


def _refuse_classes(
    classes: Iterable[str], column: Column, described: str
) -> UsageError:
    return UsageError(
        "task.classes",
        f"{', '.join(classes)}, but the label {column.name} has {described}",
        advice="write the classes as the data has them",
        name="E-classes-differ",
    )


def guess_thresholds(task: TaskConfig, labels: np.ndarray) -> dict[str, float]:
    """Returns thresholds that a model passes only if it has learned something.

    A model that always predicts one class, or the same labels, reaches the baseline:
    the best value of the metric over the classes. A threshold is 10 % above the
    baseline, relative to the gap to 1. The threshold of a correlation of scores is 0.2.

    Returns:
      The thresholds of accuracy and of the task's metric. The latter has none if its
      baseline is 1, as that of recall, or undefined.
    """
    if not task.label_kind.names:
        return {task.metric: 0.2}
    names = list(dict.fromkeys(("accuracy", task.metric)))
    constant = list(task.label_kind.constant_models(labels, names))
    baseline = {name: max(values[name] for _, values in constant) for name in names}
    return {
        name: _above(value)
        for name, value in baseline.items()
        if name == "accuracy" or value < 1
    }


def _above(baseline: float) -> float:
    """Returns a threshold from a baseline to 1, with few digits."""
    missing = max(1 - baseline, 1e-6)
    digits = max(2, 2 - math.floor(math.log10(missing)) - 1)
    return min(round(baseline + _LEARNED * missing, digits), 1.0)


def _guess_texts(
    columns: dict[str, Column], label: str | None, reasons: dict[str, str]
) -> list[str]:
    texts = {
        name: column
        for name, column in columns.items()
        if column.is_text and name != label
    }
    # Texts of a few phrases with commas between them are like names with a separator.
    texts = {n: c for n, c in texts.items() if c.separator is None} or texts
    if not texts:
        raise _refuse_columns(
            "text",
            f"none of the columns {_join_names(columns)} looks like text",
            "name the text column with `text=COLUMN`, or both of a pair",
        )
    words = {name: column.mean_words for name, column in texts.items()}
    by_length = sorted(texts, key=lambda name: -words[name])
    longest = by_length[0]
    by_name = {name.lower(): name for name in texts}
    ends = {name: _PAIR_ENDS.fullmatch(name) for name in by_name}
    pairs = [
        (first, second)
        for first, end in ends.items()
        for second, other in ends.items()
        if end and other and end[2] and other[3] and end[1] == other[1]
    ]
    for pair in (*_PAIRS, *pairs):
        columns_of_pair = [by_name[name] for name in pair if name in by_name]
        others = [name for name in texts if name not in columns_of_pair]
        most = max((words[name] for name in columns_of_pair), default=0)
        if len(columns_of_pair) == 2 and all(words[n] < most for n in others):
            reasons["task.text_columns"] = "names of a pair of texts"
            return columns_of_pair
    if all(words[n] * _MUCH_LONGER <= words[longest] for n in by_length[1:]):
        reasons["task.text_columns"] = (
            f"the longest texts: {words[longest]:.0f} words on average"
            if len(texts) > 1
            else "the only column of texts"
        )
        return [longest]
    first, second = by_length[:2]
    shown = ", ".join(f"{name} ({words[name]:.0f} words)" for name in texts)
    raise _refuse_columns(
        "text",
        f"the columns {shown} may each be the text",
        f"name one with `text={first}`, or the two of a pair with `text={first}` "
        f"`text={second}`",
    )


def _guess_labels(
    columns: dict[str, Column],
    kind: Kind | None,
    classes: Sequence[str] | None,
    reasons: dict[str, str],
) -> list[str]:
    """Returns the label column, or those of 0 and 1 of several labels."""
    named = [n for n, c in columns.items() if n.lower() in _LABEL_NAMES and c.filled]
    few = [
        name
        for name, column in columns.items()
        if _has_few_values(column) or _is_score(column) or column.separator is not None
    ]
    by_marks: dict[tuple[str, ...], list[str]] = {}
    for name, column in columns.items():
        if column.flags:
            by_marks.setdefault(tuple(sorted(column.flags)), []).append(name)
    flags = max(by_marks.values(), key=len, default=[])
    numbers = {
        n: math.inf if c.values is None else len(c.values) for n, c in columns.items()
    }
    candidates = sorted(named or few, key=numbers.__getitem__)
    is_named = any(name.lower() in _CLEAR_LABEL_NAMES for name in named)
    least = _LEAST_FLAGS - any(name in flags for name in named)
    if named and not is_named and len(flags) >= least:  # it may be one of the flags
        candidates += [name for name in flags if name not in named]
    shares = [
        name
        for name, column in columns.items()
        if column.has_fractions and column.low >= 0 and column.high <= 1
    ]
    if not is_named and len(shares) > 1 and not {*named}.isdisjoint(shares):
        candidates += [name for name in shares if name not in named]
    lists = [name for name in candidates if columns[name].separator is not None]
    rounding = []
    if len(shares) > 1:
        rounding = [
            f"the columns {', '.join(shares)} hold shares between 0 and 1, which are "
            "not labels: to make them labels, round them to 0 or 1, such as with "
            "frame[columns] = (frame[columns] >= 0.5).astype(int)"
        ]
    chosen = [name for name in classes or flags if name in flags]
    is_clear = not named and len(flags) >= _LEAST_FLAGS and {*few} == {*flags}
    if kind in (None, "multilabel") and chosen:
        if classes is not None and len(chosen) == len(classes):
            reasons["task.kind"] = "task.classes are the names of columns of 0 and 1"
            return list(classes)
        if is_clear or (kind and len(flags) > 1 and not lists):
            ones = sum(map(_count_ones, (columns[name] for name in flags)))
            if kind is None and ones == max(columns[name].filled for name in flags):
                raise UsageError(
                    "label",
                    f"the columns {', '.join(flags)} have as many 1s as rows, so they "
                    "may be one class in several columns",
                    advice="write the name of the class in one column, or choose any "
                    "number of labels with `kind=multilabel`",
                    name="E-label-refused",
                )
            reasons["task.kind"] = (
                f"{len(flags)} columns of 0 and 1, of which a row has any number; if "
                "one of them is the label, name it"
            )
            return flags
    if kind == "multilabel":
        candidates = lists or candidates
        if rounding and not lists:
            got = "no column has 0 and 1, or several names in a row"
            raise _refuse_columns("label", got, *rounding)
    if not candidates:
        crowded = [column for column in columns.values() if column.crowded]
        if kind == "multilabel" and crowded:
            raise _refuse_names(crowded[0], min(crowded[0].crowded))
        raise _refuse_columns(
            "label",
            f"none of the columns {_join_names(columns) or '(no others)'} looks like a "
            "label",
            "; ".join(["name it with `label=COLUMN`", *rounding]),
        )
    if len(candidates) > 1:
        shown = (f"{name} ({_describe(columns[name])})" for name in candidates)
        advice = f"name one with `label={candidates[0]}`"
        if len(flags) > 1:
            advice += f", or several with `kind=multilabel` {_set_classes(flags)}"
        got = f"the columns {', '.join(shown)} may each be the label"
        raise _refuse_columns("label", got, "; ".join([advice, *rounding]))
    (label,) = candidates
    shape = "scores" if _is_score(columns[label]) else "few values"
    if columns[label].separator is not None:
        shape = "several names in a row"
    reasons["task.label_column"] = (
        "a usual name of a label" if named else f"the only column of {shape}"
    )
    return candidates


def _count_ones(column: Column) -> int:
    labels = column.labels or {}
    return sum(labels[mark] for mark in labels if FLAGS[canonical_label(mark)])


def _refuse_names(column: Column, separator: str) -> UsageError:
    """Returns the error of too many names."""
    return _refuse_label(
        column,
        f"has over {MOST_LABELS} {_name_shape(separator)}",
        "leave rare ones out, name another column with `label=COLUMN`, or choose "
        "`kind=classes` if each value is one class",
        f"2 to {MOST_LABELS} names",
    )


def _name_shape(separator: str) -> str:
    if separator == LISTS:
        return "names in lists"
    return f"names with {_name_separator(separator)} between them"


def _set_classes(classes: Iterable[str]) -> str:
    """Returns a reference that sets the classes."""
    return f"`task.classes={json.dumps([*classes], ensure_ascii=False)}`"


def _name_separator(separator: str) -> str:
    names = {" ": "a blank", "\n": "a line break"}
    return names.get(separator, f"`{separator}`")


def _refuse_alike(names: Iterable[str], column: str) -> None:
    """Refuses classes that a reader would take for one."""
    by_class: dict[str, list[str]] = {}
    for name in names:
        plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", name))
        by_class.setdefault(" ".join(plain.split()).casefold(), []).append(name)
    variants = [ascii(name) for same in by_class.values() if same[1:] for name in same]
    if variants:
        raise UsageError(
            "label",
            f"the labels {', '.join(variants)} of {column} differ only in letter case, "
            "spaces, invisible characters or Unicode normal form",
            advice="write each class in one way",
            name="E-label-refused",
        )


def _guess_flags(
    columns: dict[str, Column], labels: list[str], reasons: dict[str, str]
) -> dict[str, Any]:
    """Returns the settings of a task with a column of 0 and 1 for each label."""
    label_column = "labels"
    while label_column in columns:
        label_column += "_"
    reasons["task.classes"] = "the columns of 0 and 1"
    _refuse_alike(labels, "columns")
    constant = [
        name
        for name, column in columns.items()
        if len(column.spellings) == 1 and column.spellings.keys() <= FLAGS.keys()
    ]
    if constant:
        reasons["task.classes"] += f"; {', '.join(constant)} has one value in all rows"
    return {"label_column": label_column, "classes": labels}


def _guess_names(
    column: Column,
    separator: str | None,
    classes: Sequence[str] | None,
    source_names: Mapping[str, str],
    reasons: dict[str, str],
) -> dict[str, Any]:
    """Returns the settings of a task with a column of several names."""
    label = column.name
    for guessed in (column.separator, column.unclear_separator):
        separator = guessed if separator is None else separator
    if separator is None:
        several = [s for s, names in column.names.items() if names.several]
        separator = next(iter([*several, *column.crowded]), LISTS)
    if separator in column.crowded:
        raise _refuse_names(column, separator)
    if separator not in column.names or not column.names[separator].first:
        raise _refuse_label(
            column,
            f"has {_describe(column)}, none of which is a list of names",
            "name another column, or write the names of a row with | between them",
        )
    by_label: dict[str, str] = {}
    for name in column.names[separator].first:
        by_label.setdefault(canonical_label(name), name)
    names = list(by_label.values())
    known = {source_names.get(name, name) for name in names}
    reasons["task.kind"] = f"{label} has {_name_shape(separator)}, any number in a row"
    settings: dict[str, Any] = {"labels": "name"}
    if classes is None:
        if not source_names:
            _refuse_alike(names, label)
        classes = list(source_names.values()) or _sort(names)
        reasons["task.classes"] = (
            "the names in the data set"
            if source_names
            else f"the {len(classes)} names in {label}"
        )
    elif known.isdisjoint(classes):
        if not all(name.isdecimal() and int(name) < len(classes) for name in names):
            raise _refuse_classes(classes, column, ", ".join(_sort(names)[:_SHOWN]))
        settings["labels"] = "index"
    settings["label_separator"] = separator or label_cells.SEPARATOR
    return settings | {"classes": classes}


def _has_few_values(column: Column) -> bool:
    most = _MOST_LABELS_WITHOUT_A_NAME
    if column.is_numeric:
        most = MOST_LABELS if column.are_indices else _MOST_NUMBERS
    return (
        column.values is not None
        and 2 - len(column.frequent_marks) <= len(column.values)
        and len(column.values) <= min(most, column.filled / 2)
        and not all(map(_DATE.match, column.values))
    )


def _is_score(column: Column) -> bool:
    return column.has_fractions or _has_decimal_commas(column)


def _has_decimal_commas(column: Column) -> bool:
    values = column.values
    return (
        values is not None
        and any("," in value for value in values)
        and all(map(_DECIMAL_COMMA.fullmatch, values))
    )


def _describe(column: Column) -> str:
    if column.separator is not None:
        return f"several of {len(column.names[column.separator].first)} names"
    if column.values is None or len(column.values) > _SHOWN:
        return _describe_count(column)
    return ", ".join(_sort(column.values))


def _describe_count(column: Column) -> str:
    number = f"over {MOST_VALUES:,}" if column.values is None else len(column.values)
    return f"{number} values"


def _describe_missing(column: Column) -> str:
    """Returns the number of rows without a value, and what stands for it."""
    counts: Counter[str] = Counter()
    for mark, count in column.missing.items():
        counts[mark.strip() or "(empty)"] += count
    marks = (f"{mark} in {count}" for mark, count in counts.most_common(_SHOWN))
    return f"{column.name} is missing in {counts.total()} rows ({', '.join(marks)})"


def _guess_kind(column: Column) -> Kind:
    labels = column.labels
    if _has_decimal_commas(column):
        raise _refuse_label(
            column,
            f"has decimal commas, such as {next(iter(column.values or ()))}",
            "write decimal points, or choose `kind=multilabel` if they are indices of "
            "labels",
        )
    if column.has_fractions:
        return "score"
    if not column.is_numeric:
        return "classes"
    if labels and (len(labels) == 2 or column.are_indices):
        return "classes"
    shown = _sort(labels)[:_MOST_NUMBERS] if labels else []
    more = ", ..." if labels is None or len(labels) > len(shown) else ""
    numbers = ", ".join(shown) or f"{column.low:.0f} to {column.high:.0f}"
    raise _refuse_label(
        column,
        f"has the numbers {numbers}{more if shown else ''}, which may be classes or "
        "scores",
        "choose with `kind=classes` or `kind=score`",
    )


def _guess_classes(
    column: Column, counts: Mapping[str, int], reasons: dict[str, str]
) -> list[str]:
    """Returns the names of the classes."""
    names = _sort(counts)
    marks = column.frequent_marks
    if marks:
        shown = " and ".join(f"{mark} in {column.missing[mark]} rows" for mark in marks)
        advice = f"keep it as a class with {_set_classes([*names, *marks])}"
        if len(names) > 1:
            left_out = f"{_set_classes(names)} `data.on_bad_rows=skip`"
            advice += f", or leave such rows out with {left_out}"
        got = f"is {shown}, which may be a class or a missing value"
        raise _refuse_label(column, got, advice)
    if not 2 <= len(counts) <= MOST_LABELS:
        number = f"over {MOST_VALUES:,}" if column.values is None else len(counts)
        advice = "name another column with `label=COLUMN`"
        allowed = f"2 to {MOST_LABELS} classes"
        raise _refuse_label(column, f"has {number} values", advice, allowed)
    _refuse_alike(names, column.name)
    reasons["task.classes"] = f"the {len(names)} values of {column.name}"
    for spellings in column.spellings.values():
        if len(spellings) > 1:
            reasons["task.classes"] += f"; {' and '.join(spellings)} are one class"
    return _order_pair(names, counts, reasons) if len(names) == 2 else names


def _order_pair(
    names: list[str], counts: Mapping[str, int], reasons: dict[str, str]
) -> list[str]:
    """Puts the positive class second."""
    first, second = names
    lowered = [canonical_label(name).lower() for name in names]
    negative = [
        name
        for name, low, other in zip(names, lowered, lowered[::-1], strict=True)
        if low in _NEGATIVE_NAMES or low in (f"not_{other}", f"non-{other}")
    ]
    if len(negative) == 1:
        why = f"{negative[0]} means no"
        positive = second if negative[0] == first else first
    elif counts[first] == counts[second]:
        positive, why = second, "by the alphabet, as both have equally many rows"
    else:
        positive = min(names, key=lambda name: counts[name])
        why = f"{positive} is rarer"
    reasons["task.classes"] += f"; the second is the positive class: {why}"
    return [name for name in names if name != positive] + [positive]


def _sort(values: Iterable[str]) -> list[str]:
    try:
        return sorted(values, key=float)
    except ValueError:
        return sorted(values)
