"""The card of a data set: the source of its rows, and how they were processed."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from contracts.settings.data import DataConfig
from contracts.storage import files, uris

CARD_FILE = "data_card.json"


class SplitCard(BaseModel):
    """The rows of a split.

    Attributes:
      rows: Rows that became examples.
      bad: Bad rows, which were refused or skipped, depending on `on_bad_rows`.
      left_out: Malformed rows of GLUE's archives, which TFDS leaves out, too.
    """

    rows: int
    bad: int = 0
    left_out: int = 0


class DataCard(BaseModel):
    """The card of a data set.

    Attributes:
      source: What `data.source` names.
      fingerprint: SHA-256 of the source's files; None if they were not read here.
      files: How each kind of file was read: its format, delimiter and quoting.
      splits: The rows by split; empty if they were not read here.
      splitting: `test_size`, `eval_size`, `group_column` and `split_seed`, if the
        source had no splits. A card without `eval_size` is of a random split.
      is_halved: Whether `eval` of the source was halved into `eval` and `test`.
      on_bad_rows: What happened to bad rows.
      skipped_file: The file with the skipped rows and the reasons.
      license: What `data.license` names.
      profile: Rows, labels and lengths of each split, as DataGate counted them.
      origin: The card next to the source's files, if `init` wrote them.
    """

    source: str
    fingerprint: str | None = None
    files: list[str] = []
    splits: dict[str, SplitCard] = {}
    splitting: dict[str, Any] | None = None
    is_halved: bool = False
    on_bad_rows: str = "refuse"
    skipped_file: str | None = None
    license: str | None = None
    profile: dict[str, Any] = {}
    origin: DataCard | None = None

    def write(self, directory: Path) -> None:
        """Writes the card into a directory."""
        content = files.with_format(json.loads(self.model_dump_json()))
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (directory / CARD_FILE).write_text(text, encoding="utf-8")

    def without_paths(self) -> DataCard:
        """Returns the card with names instead of the paths of this machine."""
        return self.model_copy(
            update={
                "source": os.path.basename(self.source.rstrip("/")),
                "skipped_file": None,
                "origin": self.origin and self.origin.without_paths(),
            }
        )


def read_card(directory: str) -> DataCard | None:
    """Returns the card in a directory of examples; None if there is no card.

    Raises:
      FormatError: The card has an unknown format number.
    """
    path = Path(directory) / CARD_FILE
    if not uris.is_local(directory) or not path.is_file():
        return None
    # A file of the same name by another program is ignored.
    with contextlib.suppress(ValidationError, json.JSONDecodeError):
        return DataCard.model_validate(files.parse_record(path.read_bytes(), path))
    return None


def describe_change(before: DataCard, card: DataCard) -> str:
    """Returns a warning if the same source was split in another way before."""
    if (before.splitting, before.is_halved) == (card.splitting, card.is_halved):
        return ""
    old, new = before.splitting or {}, card.splitting or {}
    if old and "eval_size" not in old:
        how = "release 1.0.0 split them at random"
    elif None in (before.splitting, card.splitting) and (old or new):
        how = f"its files had {'no splits' if old else 'splits'}"
    elif before.is_halved != card.is_halved:
        how = f"eval was {'halved' if before.is_halved else 'whole'}"
    else:
        was = (f"{key} was {old.get(key)}" for key in new if old.get(key) != new[key])
        how = ", ".join(f"data.{text}" for text in was)
    return (
        f"warning: the rows of {card.source} are not in the splits of the last run "
        f"({how}): metrics of before are of other rows, and a champion of before may "
        "have been trained on rows that it is compared on now"
    )


def describe_splitting(settings: DataConfig) -> dict[str, Any]:
    """Returns the settings for splitting a source without splits."""
    names = {"test_size", "eval_size", "group_column", "split_seed"}
    return settings.model_dump(include=names)
