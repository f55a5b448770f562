"""Bad rows: refused, or skipped and written to a file."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from contracts import wording
from contracts.errors import DataRefusedError, UsageError
from ingest.examples.data_card import DataCard
from ingest.examples.row_parser import RowParser
from ingest.examples.splits import GoodRow, LocatedRow
from ingest.rows.delimited import LeftOutError
from ingest.rows.row_errors import FileError, Location, RowError

SKIPPED_FILE = "skipped.jsonl"
_SHOWN = 5

logger = logging.getLogger(__name__)


class BadRowsError(DataRefusedError):
    """Rows were refused.

    Attributes:
      card: The card of the data, with the number of refused rows.
    """

    def __init__(self, card: DataCard, **fields: Any) -> None:
        super().__init__(**fields)
        self.card = card


class BadRows:
    """Collects the bad rows of all splits.

    Args:
      policy: `refuse` or `skip`, as `data.on_bad_rows`.
      directory: Where skipped rows are written, as `skipped.jsonl`.
      logs: Whether the first bad rows are logged.

    Attributes:
      directory: See above.
      skips: Whether bad rows are skipped.
      counts: Bad rows by split.
      first: The first of them, with their reasons.
      left_out: Malformed rows of GLUE's archives by split, which TFDS leaves out, too.
    """

    def __init__(self, policy: str, directory: Path, logs: bool = True) -> None:
        self.skips = policy == "skip"
        self.directory = directory
        self._logs = logs
        self._file: IO[str] | None = None
        self.counts: Counter[str] = Counter()
        self.first: list[str] = []
        self.left_out: Counter[str] = Counter()

    def __enter__(self) -> BadRows:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file:
            self._file.close()

    def filter(
        self,
        split: str,
        rows: Iterable[LocatedRow],
        parser: RowParser,
    ) -> Iterator[GoodRow]:
        """Yields the rows that are not bad.

        Args:
          split: Their split.
          rows: Locations, and rows or the reason why one cannot be read.
          parser: Returns the features of a row.

        Raises:
          UsageError: A file, or the rest of it, cannot be read, or the rows lack the
            group column.
        """
        for location, row in rows:
            try:
                if isinstance(row, FileError):
                    raise UsageError(
                        str(location), str(row), name="E-file-damaged"
                    ) from row
                if isinstance(row, RowError):
                    raise row
                features = parser.parse(row)
            except LeftOutError:
                self.left_out[split] += 1
            except RowError as error:
                self._add(split, location, row, error)
            else:
                yield GoodRow(location, features, group=parser.find_group(row))

    def _add(
        self,
        split: str,
        location: Location,
        row: dict[str, Any] | RowError,
        error: RowError,
    ) -> None:
        self.counts[split] += 1
        if len(self.first) < _SHOWN:
            self.first.append(f"{location}: {error}")
            if self._logs:
                outcome = "skipped" if self.skips else "refused"
                logger.warning("%s: %s", outcome, self.first[-1])
        if self.skips:
            if self._file is None:
                path = self.directory / SKIPPED_FILE
                self._file = path.open("w", encoding="utf-8")
            line = {
                "split": split,
                "file": location.file,
                "row": location.row,
                "reason": str(error),
                "values": row if isinstance(row, dict) else None,
            }
            text = json.dumps(line, ensure_ascii=False, default=str)
            self._file.write(text + "\n")

    def refuse(self, card: DataCard) -> None:
        """Refuses the rows, unless they are skipped.

        Args:
          card: The card of the data, for the error.

        Raises:
          BadRowsError: There are bad rows; the message names the first ones.
        """
        count = self.counts.total()
        if not count or self.skips:
            return
        more = f"\n  and {count - _SHOWN} more" if count > _SHOWN else ""
        raise BadRowsError(
            got=f"{wording.count(count, 'row')} cannot be used:\n  "
            + "\n  ".join(self.first)
            + more,
            advice="correct the data, or leave such rows out with "
            "`data.on_bad_rows=skip`",
            name="E-rows-refused",
            card=card,
        )
