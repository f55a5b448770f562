"""Judges the rows of all splits: problems that spoil training or evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from contracts.records.evaluation import lowest
from contracts.settings.sections import Sections
from contracts.task.definition import NO_ID, TRAIN_SPLIT
from modules.data import profile, threshold_interval
from modules.data.all_rows import AllRows, group
from modules.data.profile import Profile
from modules.data.row_facts import RowFacts

# Kinds of findings.
NO_ROWS = "no rows"
ONE_CLASS = "one class"
NO_CLASS = "class without rows"
SMALL_GATE = "small gate"
CONSTANT_MODEL = "constant model"
CONTRADICTIONS = "contradictions"
DUPLICATES = "duplicates"
REPEATED_IDS = "repeated ids"
SHARED = "shared rows"
RARE_CLASS = "rare class"
CUT = "cut texts"
UNREADABLE = "unreadable texts"
LABEL_DRIFT = "label drift"
LENGTH_DRIFT = "length drift"

SHOWN = 3  # rows, or classes, that a message names
# Russian, Greek or Chinese on an English encoder have a share of 0.5 to 1. Texts in a
# language of the encoder, or in another language of Latin letters, have less than 0.3.
_UNREADABLE_SHARE = 0.4
_DRIFT_P = 0.001
_MANY_CLASSES_SHARE = 0.5  # of an equal share


class Row(NamedTuple):
    """A row that a finding names.

    Attributes:
      split: Its split.
      record: Its `RowFacts.records`.
      id: Its id, -1 if it is missing.
    """

    split: str
    record: int
    id: int


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem in the rows.

    Attributes:
      kind: One of the kinds of findings.
      split: The split; empty if several splits are concerned.
      message: One sentence: split, numbers, setting, and what to do.
      is_refused: Whether it stops the run; otherwise it is a warning.
      count: Number of rows concerned.
      rows: The first of them, at most three: single rows, or pairs with equal texts.
    """

    kind: str
    split: str
    message: str
    is_refused: bool = False
    count: int = 0
    rows: tuple[tuple[Row, ...], ...] = ()

    @property
    def name(self) -> str:
        """The stable name of a finding that stops the run; empty for a warning."""
        return f"E-{self.kind.replace(' ', '-')}" if self.is_refused else ""


def judge(
    rows: AllRows, settings: Sections, previous: Profile | None = None
) -> list[Finding]:
    """Judges the rows of all splits, independent of the order of the rows.

    Args:
      rows: The rows.
      settings: The task, the limits for refusals and warnings, the thresholds (0 and
        less decide nothing), and the longest row in tokens.
      previous: The training split of the last span; None for the first span.

    Returns:
      The findings, refused ones first.
    """
    findings = _Judgment(rows, settings, previous).findings()
    return sorted(findings, key=lambda finding: not finding.is_refused)


class _Judgment:
    def __init__(
        self, rows: AllRows, settings: Sections, previous: Profile | None
    ) -> None:
        self.rows, self.previous = rows, previous
        self._filled = rows.filled
        self._profiles = {split: rows.profiles[split] for split in rows.filled}
        self.task, self.limits = settings.task, settings.data_gate
        self.gate_split = settings.evaluator.gate_split
        self.thresholds = settings.evaluator.thresholds
        self.max_seq_length = settings.preprocessing.max_seq_length

    def findings(self) -> Iterator[Finding]:
        for split in self.rows.splits:
            if split not in self._filled:
                message = f"{split}: it has no rows; add rows, or remove the split"
                yield Finding(NO_ROWS, split, message, is_refused=True)
        yield from self._single_classes()
        yield from self._absent_classes()
        yield from self._small_gate()
        yield from self._constant_model()
        yield from self._contradictions()
        yield from self._rare_classes()
        yield from self._shared_rows()
        for split, facts in self._filled.items():
            yield from self._duplicates(split)
            yield from self._repeated_ids(split, facts)
            yield from self._cut_texts(split, facts)
            yield from self._unreadable_texts(split, facts)
        train = self._profiles.get(TRAIN_SPLIT)
        if train is None:
            return
        for split, profile_of_split in self._profiles.items():
            if split != TRAIN_SPLIT:
                yield from self._drift(split, profile_of_split, TRAIN_SPLIT, train)
        if self.previous is not None:
            name = f"{TRAIN_SPLIT} of span {self.previous.span}"
            yield from self._drift(TRAIN_SPLIT, train, name, self.previous)

    def _single_classes(self) -> Iterator[Finding]:
        for split in dict.fromkeys([TRAIN_SPLIT, self.gate_split]):
            facts = self._filled.get(split)
            if facts is None or not facts.has_one_label:
                continue
            count = len(facts)
            kind = self.task.label_kind
            value, missing = kind.describe_constant(facts.labels[0], SHOWN)
            consequence = (
                "a model would learn only to predict it"
                if split == TRAIN_SPLIT
                else "a model that always predicts it would pass"
            )
            message = (
                f"{split}: all {count} rows have the {value}: {consequence}; add rows "
                f"of {missing}"
            )
            yield Finding(ONE_CLASS, split, message, is_refused=True, count=count)

    def _absent_classes(self) -> Iterator[Finding]:
        facts = self._filled.get(TRAIN_SPLIT)
        if not self.task.label_kind.names or facts is None:
            return
        if facts.has_one_label:  # `_single_classes`
            return
        train = self._profiles[TRAIN_SPLIT]
        for kind, rows, what, advice in (
            (NO_CLASS, 0, "it has no row of", "which no model can learn to predict"),
            # Only a row with several labels shares one with all others.
            (
                ONE_CLASS,
                len(facts),
                "all rows have",
                "so that a model would always predict it",
            ),
        ):
            names = [name for name, count in train.labels.items() if count == rows]
            if names:
                shown = ", ".join(f"`{name}`" for name in names[:SHOWN])
                more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
                message = (
                    f"{TRAIN_SPLIT}: {what} {shown}{more}, {advice}: add rows, or "
                    "leave the class out of task.classes"
                )
                yield Finding(kind, TRAIN_SPLIT, message, is_refused=True)

    def _small_gate(self) -> Iterator[Finding]:
        split = self.gate_split
        if split not in self._filled:
            return
        counts = np.array(list(self._profiles[split].labels.values()))
        all_rows = self.task.label_kind.total(len(self._filled[split]))
        table = self.task.metric_table
        for name, threshold in self.thresholds.items():
            if name not in self.task.metrics:  # the Evaluator refuses it
                continue
            metric, maximum = table[name], self.limits.max_interval
            if threshold_interval.is_exact(
                metric, threshold, counts, maximum, all_rows
            ):
                continue
            rows, kind = threshold_interval.count_rows(metric, counts, all_rows)
            limit = threshold_interval.find_limit(metric, maximum)
            low, high = threshold_interval.find_interval(metric, threshold, rows)
            needed = threshold_interval.needed_rows(metric, threshold, limit)
            message = (
                f"{split}: too small for evaluator.thresholds {name} {threshold:g}: "
                f"on {rows} {kind} its 95 % interval is {low:.2f} to {high:.2f}, and "
                f"data_gate.max_interval allows ±{limit:g}; about {needed} are needed: "
                "add rows, or name a larger split with evaluator.split"
            )
            yield Finding(SMALL_GATE, split, message, is_refused=True, count=rows)

    def _constant_model(self) -> Iterator[Finding]:
        """Finds thresholds that a model reaches if it always predicts one class."""
        split, kind = self.gate_split, self.task.label_kind
        # The Evaluator refuses other metrics. A threshold of 0 or less has no effect.
        bounds = {
            name: bound
            for name, bound in self.thresholds.items()
            if name in self.task.metrics and bound > 0
        }
        if split not in self._filled or not bounds:
            return
        labels = self._filled[split].labels
        if self._filled[split].has_one_label:  # `_single_classes`
            return
        for predicted, values in kind.constant_models(labels, bounds):
            if all(values[name] >= lowest(bound) for name, bound in bounds.items()):
                reached = ", ".join(f"{name} {values[name]:.3f}" for name in bounds)
                shown = ", ".join(f"`{name}`" for name in predicted) or "no label"
                message = (
                    f"{split}: a model that always predicts {shown} reaches all of "
                    f"evaluator.thresholds ({reached}): raise them, or add one for "
                    f"{kind.better_metrics}"
                )
                yield Finding(CONSTANT_MODEL, split, message)
                return

    def _contradictions(self) -> Iterator[Finding]:
        """Finds texts with several labels, over all splits."""
        facts, rows, count = self.rows.contradictions
        if not count:
            return
        total = sum(map(len, self._filled.values()))
        limit = self.limits.max_contradictions
        is_refused = count > limit * total
        advice = "correct the labels" + (", or raise the limit" if is_refused else "")
        message = (
            f"all splits: {_share(count, total)} have the same texts as "
            "another row but a different label; data_gate.max_contradictions is "
            f"{limit:g}: {advice}"
        )
        splits = list(self.rows.repeated)
        ends = np.cumsum([len(repeated) for repeated in self.rows.repeated.values()])
        pairs = tuple(
            tuple(
                _name(splits[np.searchsorted(ends, row, side="right")], facts, row)
                for row in pair
            )
            for pair in _pair_extremes(facts, rows, facts.label_numbers)
        )
        yield Finding(CONTRADICTIONS, "", message, is_refused, count, pairs)

    def _rare_classes(self) -> Iterator[Finding]:
        kind = self.task.label_kind
        if not kind.names or TRAIN_SPLIT not in self._filled:
            return
        train = self._profiles[TRAIN_SPLIT]
        labels, rows = train.labels, train.rows
        limit = min(self.limits.warn_class_share, _MANY_CLASSES_SHARE / len(kind.names))
        rare = sorted((n, name) for name, n in labels.items() if 0 < n < limit * rows)
        if rare:
            shown = ", ".join(f"`{name}` {n / rows:.1%}" for n, name in rare[:SHOWN])
            message = (
                f"{TRAIN_SPLIT}: {len(rare)} of {len(labels)} classes have less than "
                f"{limit:.1%} of the rows (data_gate.warn_class_share): {shown}; a "
                f"model may never predict them: add rows, or set "
                f"{kind.rare_class_setting}"
            )
            count = sum(n for n, _ in rare)
            yield Finding(RARE_CLASS, TRAIN_SPLIT, message, count=count)

    def _shared_rows(self) -> Iterator[Finding]:
        gate = self.gate_split
        if gate == TRAIN_SPLIT or not {gate, TRAIN_SPLIT} <= self._filled.keys():
            return
        (facts, rows, count), train = self.rows.shared(gate, TRAIN_SPLIT)
        total, limit = len(self._filled[gate]), self.limits.warn_shared
        if count <= limit * total:
            return
        pairs = []
        for row in _sort(facts, rows)[:SHOWN]:
            same = np.flatnonzero(train.texts == facts.texts[row])
            partner = _sort(train, same)[0]
            first = _name(gate, facts, row)
            pairs.append((first, _name(TRAIN_SPLIT, train, partner)))
        message = (
            f"{gate}: {_share(count, total)} have texts that are "
            f"in {TRAIN_SPLIT} too (data_gate.warn_shared {limit:g}): a model can pass "
            f"by memorizing them; remove them from {TRAIN_SPLIT}"
        )
        yield Finding(SHARED, gate, message, count=count, rows=tuple(pairs))

    def _duplicates(self, split: str) -> Iterator[Finding]:
        facts, rows, count = self.rows.duplicates[split]
        total, limit = len(self._filled[split]), self.limits.warn_duplicates
        if count <= limit * total:
            return
        pairs = tuple(
            tuple(_name(split, facts, row) for row in pair)
            for pair in _pair_extremes(facts, rows, facts.ids)
        )
        message = (
            f"{split}: {_share(count, total)} repeat the texts of another row "
            f"(data_gate.warn_duplicates {limit:g}): they count several times; remove "
            "them"
        )
        yield Finding(DUPLICATES, split, message, count=count, rows=pairs)

    def _repeated_ids(self, split: str, facts: RowFacts) -> Iterator[Finding]:
        """Finds ids that rows of different texts share."""
        order = np.argsort(facts.ids)
        ids, texts = facts.ids[order], facts.texts[order]
        # Rows of one id are next to each other, so two of its texts are somewhere.
        is_shared = (np.diff(ids) == 0) & (np.diff(texts) != 0) & (ids[1:] != NO_ID)
        rows = np.flatnonzero(np.isin(facts.ids, np.unique(ids[1:][is_shared])))
        if not len(rows):
            return
        message = (
            f"{split}: {_share(len(rows), len(facts))} have the {self.task.id_column} "
            "of a row with other texts: `compare` and the report cannot match them by "
            "it; number the rows anew, or name another column with task.id_column"
        )
        named = _name_first(split, facts, rows)
        yield Finding(REPEATED_IDS, split, message, count=len(rows), rows=named)

    def _cut_texts(self, split: str, facts: RowFacts) -> Iterator[Finding]:
        cut = np.flatnonzero(facts.lengths > self.max_seq_length)
        limit = self.limits.warn_cut
        if len(cut) <= limit * len(facts):
            return
        windows = ""
        if self.task.has_single_text:
            windows = " or, with preprocessing.long_text, beyond it"
        message = (
            f"{split}: {_share(len(cut), len(facts))} have more than "
            f"{self.max_seq_length} tokens and are cut (data_gate.warn_cut "
            f"{limit:g}); the longest has {facts.lengths.max()}: raise "
            f"preprocessing.max_seq_length, up to the encoder's limit{windows}, or "
            "shorten them"
        )
        rows = _name_first(split, facts, cut)
        yield Finding(CUT, split, message, count=len(cut), rows=rows)

    def _unreadable_texts(self, split: str, facts: RowFacts) -> Iterator[Finding]:
        unread = facts.unknown + facts.letters
        unreadable = np.flatnonzero(unread > _UNREADABLE_SHARE * facts.tokens)
        limit = self.limits.warn_unreadable
        if len(unreadable) <= limit * len(facts):
            return
        tokens = self._profiles[split]
        share = _share(len(unreadable), len(facts))
        message = (
            f"{split}: the encoder can hardly read {share}: over "
            f"{_UNREADABLE_SHARE:.0%} of their tokens are [UNK] or single letters "
            f"within a word (data_gate.warn_unreadable {limit:g}); of all tokens "
            f"{tokens.unknown_share:.1%} are [UNK], and a word has "
            f"{tokens.tokens_per_word:.1f} tokens: set encoder.source to an encoder "
            "for the language of the texts"
        )
        rows = _name_first(split, facts, unreadable)
        yield Finding(UNREADABLE, split, message, count=len(unreadable), rows=rows)

    def _drift(
        self, split: str, new: Profile, other: str, reference: Profile
    ) -> Iterator[Finding]:
        # The labels differ if the last span was of another task.
        if new.labels.keys() == reference.labels.keys():
            yield from self._label_drift(split, new, other, reference)
        difference, p = profile.compare_lengths(new, reference)
        limit = self.limits.warn_length_drift
        if difference > limit and p < _DRIFT_P:
            message = (
                f"{split}: the lengths differ from those of {other} by "
                f"{difference:.0%} (data_gate.warn_length_drift {limit:g}): the mean "
                f"is {new.mean_length:.0f} tokens, and {reference.mean_length:.0f} in "
                f"{other}; check whether both have the same kind of text"
            )
            yield Finding(LENGTH_DRIFT, split, message, count=new.rows)

    def _label_drift(
        self, split: str, new: Profile, other: str, reference: Profile
    ) -> Iterator[Finding]:
        test = self.task.label_kind.drift_test
        if test == "histogram":
            scores = list(new.labels.values()), list(reference.labels.values())
            difference, p = profile.compare_counts(*scores)
            what = f"the scores differ from those of {other} by {difference:.2f}"
        else:
            name, difference, p = profile.compare_classes(
                new, reference, counts_once=test == "classes"
            )
            here = f"{new.labels[name] / new.rows:.1%}"
            there = f"{reference.labels[name] / reference.rows:.1%}"
            what = f"the class `{name}` has {here} of the rows, and {there} in {other}"
        limit = self.limits.warn_label_drift
        if difference > limit and p < _DRIFT_P:
            message = (
                f"{split}: {what} (data_gate.warn_label_drift {limit:g}): check "
                "whether both were sampled and labeled in the same way"
            )
            yield Finding(LABEL_DRIFT, split, message, count=new.rows)


def _share(count: int, rows: int) -> str:
    return f"{count} of {rows} rows ({count / rows:.1%})"


def _name(split: str, facts: RowFacts, row: int) -> Row:
    return Row(split, int(facts.records[row]), int(facts.ids[row]))


def _name_first(
    split: str, facts: RowFacts, rows: np.ndarray
) -> tuple[tuple[Row, ...], ...]:
    """Returns the first of the rows, each in a group of its own."""
    return tuple((_name(split, facts, row),) for row in _sort(facts, rows)[:SHOWN])


def _sort(facts: RowFacts, rows: np.ndarray) -> np.ndarray:
    """Returns rows in the order of their ids, independent of the order of the files."""
    return rows[np.lexsort((facts.records[rows], facts.ids[rows]))]


def _pair_extremes(
    facts: RowFacts, rows: np.ndarray, values: np.ndarray
) -> list[tuple[int, int]]:
    """Returns the rows with the lowest and highest value of the first groups.

    Args:
      facts: The rows.
      rows: All rows of groups with equal texts, at least two of each group.
      values: Sort key of the rows in a group, one for each of `facts`.
    """
    keys = (facts.records, facts.ids, values, facts.texts)
    ordered = rows[np.lexsort([key[rows] for key in keys])]
    _, starts, sizes = group(facts.texts[ordered])
    first, last = ordered[starts], ordered[starts + sizes - 1]
    shown = np.lexsort((facts.records[first], facts.ids[first]))[:SHOWN]
    return list(zip(first[shown].tolist(), last[shown].tolist(), strict=True))
