"""The verdict of DataGate, as a small JSON file."""

from __future__ import annotations

from contracts.storage import files, uris
from contracts.verdicts import VERDICT_FILE, DataVerdict


def write_verdict(verdict: DataVerdict, directory: str) -> None:
    """Writes a verdict as a JSON file in a directory."""
    content = verdict.model_dump(mode="json")
    files.write_record(uris.join(directory, VERDICT_FILE), content)


def read_data_verdict(directory: str) -> DataVerdict:
    """Reads what `write_verdict` wrote."""
    content = files.read_record(uris.join(directory, VERDICT_FILE))
    return DataVerdict.model_validate(content)
