"""What DataGate calls by this module's path: describe rows, judge and locate them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from modules.config.data_gate import DataGateConfig
from modules.config.task import TaskConfig
from modules.data import judgment, row_facts, row_values, source_rows
from modules.data.profile import Profile
from modules.data.row_facts import RowFacts

hash_record = row_facts.hash_record
is_empty = row_values.is_empty
locate = source_rows.locate


class Judgment(NamedTuple):
    """What DataGate reports.

    Attributes:
      findings: Refused ones first.
      summaries: Rows, labels and lengths of each split, as JSON can hold them.
      reference: What the training split of the next span is compared with, as JSON can
        hold it; None if there is no training split.
    """

    findings: list[judgment.Finding]
    summaries: dict[str, dict[str, Any]]
    reference: dict[str, Any] | None


def describe(
    serialized: list[bytes], settings: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Returns the facts of Examples, arrays by name.

    Args:
      serialized: Examples as `tf.train.Example`.
      settings: As `judge` gets them.
    """
    return vars(row_facts.describe_examples(serialized, settings))


def judge(
    facts: dict[str, list[dict[str, np.ndarray]]],
    settings: dict[str, Any],
    thresholds: dict[str, float],
    *,
    span: int | None,
    previous: dict[str, Any] | None,
) -> Judgment:
    """Judges the rows of all splits.

    Args:
      facts: What `describe` returned, by split.
      settings: `task`, `limits`, `gate_split`, `max_seq_length` and `vocab_file`.
      thresholds: Lowest value by metric.
      span: The span of the rows; None if the source has no spans.
      previous: The `reference` of the last span; None if there is none.
    """
    task = TaskConfig.model_validate(settings["task"])
    rows = {
        split: RowFacts.concatenate(RowFacts(**part) for part in parts)
        for split, parts in facts.items()
    }
    profiles = {split: Profile.of(rows[split], task, span) for split in rows}
    train = profiles.get(judgment.TRAIN)
    return Judgment(
        findings=judgment.judge(
            rows,
            task,
            DataGateConfig.model_validate(settings["limits"]),
            gate_split=settings["gate_split"],
            thresholds=thresholds,
            max_seq_length=settings["max_seq_length"],
            previous=Profile(**previous) if previous else None,
        ),
        summaries={
            split: profile.summary(settings["max_seq_length"])
            for split, profile in profiles.items()
        },
        reference=dataclasses.asdict(train) if train else None,
    )
