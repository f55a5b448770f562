"""Inspects a data set: its rows, and what a run would refuse or warn about."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from components.model_checks import data_judgment
from components.model_checks.registry import ConfiguredCheck
from contracts import wording
from contracts.errors import named
from contracts.task.definition import TRAIN_SPLIT, TaskConfig
from ingest.examples.bad_rows import BadRows
from ingest.examples.splits import GoodRow
from ingest.rows.row_errors import Location
from modules.data import (
    judgment,
    leaked_labels,
    row_facts,
    slice_judgment,
    slice_sizes,
)
from modules.data.all_rows import AllRows
from modules.data.leaked_labels import WordSample, cut_words
from modules.data.row_facts import RowFacts
from modules.data.slice_columns import MISSING
from modules.data.words import split_words
from pipeline.config.recipe import Config
from pipeline.onboarding.columns import LISTS, Column

_ROWS_AT_A_TIME = 8192
_NEAR_EMPTY = 3  # letters and digits
_BAR_WIDTH = 40
_BINS = 12
# Characters that are left in text from another encoding or a web page.
_ODD_NAMES = {
    "\ufffd": "replacement characters (bytes that another program could not decode)",
    "\u200b": "zero width spaces",
    "\ufeff": "byte order marks inside a text",
    "\x00": "NUL characters",
    "\u00a0": "no-break spaces",
}
_MOJIBAKE = ("Ã¤", "Ã¶", "Ã¼", "Ã©", "Ã¨", "â€™", "â€œ", "Â ")
_HTML = ("<br", "&amp;", "&quot;", "&#39;", "&lt;", "</p>")
_HTML_STARTS = {word[0] for word in _HTML}
_ODD_WORDS = dict.fromkeys(_MOJIBAKE, "UTF-8 that was read as another encoding") | (
    dict.fromkeys(_HTML, "HTML")
)

Progress = Callable[[int], None]


@dataclasses.dataclass
class SplitInspection:
    """The rows of a split.

    Attributes:
      rows: Good rows.
      bad: Bad rows.
      labels: Rows by class; empty for a regression.
      unlabelled: Rows with none of several labels.
      lengths: Quantiles of the packed lengths, in tokens, by name.
      unknown_share: Share of the tokens that are `[UNK]`.
      tokens_per_word: Tokens of a word on average.
      cut: Rows longer than `preprocessing.max_seq_length`.
      near_empty: Rows with a text of at most three letters and digits.
      duplicates: Rows that repeat the texts of another row of the split.
      shortest: The row with the fewest tokens, and its texts.
      longest: The row with the most tokens, and its texts.
    """

    rows: int = 0
    bad: int = 0
    labels: dict[str, int] = dataclasses.field(default_factory=dict)
    unlabelled: int = 0
    lengths: dict[str, int] = dataclasses.field(default_factory=dict)
    unknown_share: float = 0.0
    tokens_per_word: float = 0.0
    cut: int = 0
    near_empty: int = 0
    duplicates: int = 0
    shortest: str = ""
    longest: str = ""


@dataclasses.dataclass
class ColumnInspection:
    """A column of the training rows.

    Attributes:
      name: Its name.
      filled: Rows with a value.
      values: Different values, or names in lists; None if there are more than 1,000, or
        if the lists are no labels.
      words: Words of a text on average; 0 without texts.
    """

    name: str
    filled: int
    values: int | None
    words: float

    @classmethod
    def of(cls, column: Column) -> ColumnInspection:
        """Describes a column."""
        values: Sized | None = column.values
        if column.holds_lists:
            lists = column.names.get(LISTS)
            values = lists.first if lists and not column.problem else None
        number = None if values is None else len(values)
        return cls(column.name, column.filled, number, round(column.mean_words, 1))


@dataclasses.dataclass
class Inspection:
    """A data set.

    Attributes:
      columns: The columns of the training rows.
      splits: The rows by split.
      max_seq_length: The tokens after which a row is cut.
      histogram: Rows by length: the lower bounds of the bins, in tokens, and the rows.
      contradictions: Rows with the texts of another row but a different label.
      shared: Rows whose texts are in an earlier split, too, by "SPLIT, EARLIER SPLIT".
      odd: Rows by kind of odd characters.
      refused: Why a run would be refused.
      warnings: What a run would warn about.
      refused_kinds: The kinds of findings that are refused.
      has_refused_bad_rows: Whether bad rows are one of the reasons in `refused`.
    """

    columns: list[ColumnInspection]
    splits: dict[str, SplitInspection]
    max_seq_length: int
    histogram: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    contradictions: int = 0
    shared: dict[str, int] = dataclasses.field(default_factory=dict)
    odd: dict[str, int] = dataclasses.field(default_factory=dict)
    refused: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    refused_kinds: list[str] = dataclasses.field(default_factory=list)
    has_refused_bad_rows: bool = False


class Inspector:
    """Collects the facts of all splits.

    Args:
      task: Names the columns.
      vocab_file: The vocabulary of the encoder.
      slice_columns: The columns that the evaluation is sliced by.
      progress: Called with the number of rows so far.

    Attributes:
      facts: The facts of the good rows by split.
    """

    def __init__(
        self,
        task: TaskConfig,
        vocab_file: str,
        slice_columns: Sequence[str],
        progress: Progress = lambda rows: None,
    ) -> None:
        self._task = task
        self._vocab_file = vocab_file
        self._slice_columns = slice_columns
        self._progress = progress
        self._locations = _Locations()
        self._splits: dict[str, SplitInspection] = {}
        self._odd: Counter[str] = Counter()
        self._counts: dict[str, dict[str, slice_sizes.Counts]] = {}
        self._words = WordSample()
        self.facts: dict[str, RowFacts] = {}

    def add(self, split: str, rows: Iterator[GoodRow]) -> Iterator[GoodRow]:
        """Yields the good rows of a split, and collects their facts."""
        inspected = self._splits.setdefault(split, SplitInspection())
        parts: list[RowFacts] = []
        # TensorFlow tokenizes a batch while Python reads, checks and writes the next.
        with ThreadPoolExecutor(1) as executor:
            described: Future[RowFacts] | None = None
            while batch := list(itertools.islice(rows, _ROWS_AT_A_TIME)):
                if described:
                    parts.append(described.result())
                    self._progress(len(self._locations))
                self._count_slices(split, batch)
                described = executor.submit(self._describe, split, inspected, batch)
                yield from batch
            if described:
                parts.append(described.result())
                self._progress(len(self._locations))
        self.facts[split] = RowFacts.concatenate(parts)

    def count_labels(self, split: str) -> dict[str, int]:
        """Returns the rows of a split by class, or by score."""
        return self._rows.profiles[split].labels

    @functools.cached_property
    def _rows(self) -> AllRows:
        """All rows; the last split must have been added."""
        return AllRows(self.facts, self._task)

    def finish(
        self,
        config: Config,
        bad_rows: BadRows,
        columns: Iterable[Column],
        checks: Iterable[ConfiguredCheck],
    ) -> Inspection:
        """Judges all rows as a run would; see `judgment.judge`."""
        settings = config.sections.model_copy(update={"task": self._task})
        described = list(map(ColumnInspection.of, columns))
        inspection = Inspection(
            described, self._splits, config.preprocessing.max_seq_length
        )
        inspection.odd = dict(self._odd)
        self._describe_splits(inspection)
        inspection.contradictions = self._rows.contradictions.total
        for first, later in itertools.combinations(self._rows.repeated, 2):
            shared, _ = self._rows.shared(later, first)
            if shared.total:
                inspection.shared[f"{later}, {first}"] = shared.total
        counts = self._counts.get(config.evaluator.gate_split, {})
        split = config.evaluator.gate_split
        slices = slice_judgment.judge(counts, settings)
        checked = data_judgment.judge(checks, self._task, split, self.facts, counts)
        leaked = leaked_labels.judge(
            self._words, self._task, config.data_gate.max_word_f1
        )
        findings = judgment.judge(self._rows, settings)
        for finding in itertools.chain(findings, slices, leaked, checked):
            lines = inspection.refused if finding.is_refused else inspection.warnings
            if finding.is_refused:
                inspection.refused_kinds.append(finding.kind)
            rows = "; ".join(
                " and ".join(self._locations.find(row.record) for row in group)
                for group in finding.rows
            )
            line = finding.message + (f" ({rows})" if rows else "")
            lines.append(named(line, finding.name) if finding.name else line)
        for split, count in bad_rows.counts.items():
            self._splits.setdefault(split, SplitInspection()).bad = count
        lines = inspection.warnings if bad_rows.skips else inspection.refused
        lines += [f"bad row {row}" for row in bad_rows.first]
        if bad_rows.counts.total() > len(bad_rows.first):
            more = bad_rows.counts.total() - len(bad_rows.first)
            lines.append(wording.count(more, "more bad row"))
        inspection.has_refused_bad_rows = bool(bad_rows.counts) and not bad_rows.skips
        return inspection

    def _count_slices(self, split: str, batch: list[GoodRow]) -> None:
        task, counts = self._task, self._counts.setdefault(split, {})
        for row in batch:
            label = row.features[task.label_column]
            for column in self._slice_columns:
                value = row.features.get(column, MISSING)
                slice_sizes.count_row(counts.setdefault(column, {}), value, label, task)

    def _describe(
        self,
        split: str,
        inspected: SplitInspection,
        batch: list[GoodRow],
    ) -> RowFacts:
        task = self._task
        features = [row.features for row in batch]
        columns = [[f[column] for f in features] for column in task.text_columns]
        rows = list(zip(*columns, strict=True))
        records = [self._locations.add(row.location) for row in batch]
        for texts in rows:
            inspected.near_empty += any(map(_is_near_empty, texts))
            if kinds := set().union(*map(_find_odd, texts)):
                self._odd.update(kinds)
        counts = row_facts.count_tokens(columns, self._vocab_file)
        lengths = counts.lengths
        low, high = int(lengths.argmin()), int(lengths.argmax())
        bounds = inspected.lengths
        if not bounds or lengths[low] < bounds["min"]:
            bounds["min"] = int(lengths[low])
            inspected.shortest = _show(batch[low].location, rows[low])
        if "max" not in bounds or lengths[high] > bounds["max"]:
            bounds["max"] = int(lengths[high])
            inspected.longest = _show(batch[high].location, rows[high])
        hashes = np.array(
            [
                row_facts.hash_texts(texts) if row.text_hash is None else row.text_hash
                for row, texts in zip(batch, rows, strict=True)
            ],
            np.uint64,
        )
        if split == TRAIN_SPLIT:
            for index in np.flatnonzero(hashes <= self._words.bound):
                label = features[index][task.label_column]
                words = [cut_words(split_words(text)) for text in rows[index]]
                self._words.add(int(hashes[index]), label, words)
        return RowFacts(
            texts=hashes,
            labels=np.array([f[task.label_column] for f in features]),
            **counts._asdict(),
            ids=np.array([f[task.id_column] for f in features]),
            records=np.array(records),
        )

    def _describe_splits(self, inspection: Inspection) -> None:
        for name, split in self._splits.items():
            facts = self.facts[name]
            split.rows = len(facts)
            if not split.rows:
                continue
            profile = self._rows.profiles[name]
            split.duplicates = self._rows.duplicates[name].total
            split.cut = int((facts.lengths > inspection.max_seq_length).sum())
            split.unknown_share = round(profile.unknown_share, 4)
            split.tokens_per_word = round(profile.tokens_per_word, 2)
            if self._task.label_kind.names:
                split.labels = dict(profile.labels)
            if self._task.label_kind.has_flags:
                split.unlabelled = int((facts.labels == 0).all(axis=1).sum())
            split.lengths = {
                label: profile.length_at(quantile)
                for label, quantile in (("median", 0.5), ("p95", 0.95), ("max", 1.0))
            }
        lengths = RowFacts.concatenate(self.facts.values()).lengths
        if len(lengths):
            edges = np.histogram_bin_edges(lengths, _BINS).astype(int)
            edges = np.unique(edges)
            counts, _ = np.histogram(lengths, [*edges[:-1], lengths.max() + 1])
            pairs = zip(edges[:-1], counts, strict=False)
            inspection.histogram = [(int(low), int(count)) for low, count in pairs]


class _Locations:
    """The locations of rows, in 12 bytes a row."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._file_of_row = array("i")
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, location: Location) -> int:
        """Returns the number of a location."""
        file = self._files.setdefault(location.file, len(self._files))
        self._file_of_row.append(file)
        self._rows.append(location.row)
        return len(self._rows) - 1

    def find(self, number: int) -> str:
        """Returns the location of a number."""
        file = list(self._files)[self._file_of_row[number]]
        return str(Location(file, self._rows[number]))


def bars(histogram: list[tuple[int, int]]) -> Iterator[tuple[str, int, str]]:
    """Yields the range of lengths, the rows and a bar of each bin of a histogram."""
    most = max((count for _, count in histogram), default=0)
    for index, (low, count) in enumerate(histogram):
        is_last = index + 1 == len(histogram)
        high = 0 if is_last else histogram[index + 1][0] - 1
        width = -(-count * _BAR_WIDTH // most) if most else 0
        name = f"{low}+" if is_last else f"{low}-{high}"
        yield str(low) if name == f"{low}-{low}" else name, count, "█" * width


def _is_near_empty(text: str) -> bool:
    letters = itertools.islice(filter(str.isalnum, text), _NEAR_EMPTY + 1)
    return sum(1 for _ in letters) <= _NEAR_EMPTY


def _find_odd(text: str) -> set[str]:
    is_plain = text.isascii() and text.isprintable()
    if is_plain and not any(start in text for start in _HTML_STARTS):
        return set()
    kinds = {kind for word, kind in _ODD_WORDS.items() if word in text}
    kinds |= {name for c, name in _ODD_NAMES.items() if c in text}
    if text.isprintable():
        return kinds
    odd = {c for c in text if unicodedata.category(c) in ("Cc", "Co", "Cn")}
    odd -= {*"\t\r\n", *_ODD_NAMES}
    return kinds | ({"control characters"} if odd else set())


def _show(location: Location, texts: Iterable[str]) -> str:
    shown = " | ".join(" ".join(text[:80].split()) for text in texts)
    return f"{location}: {shown:.100}"
