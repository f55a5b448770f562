"""Files of runs, versions and servers without a person's rows.

Entries of JSON lists that are such rows are left out, and texts that are quoted
elsewhere are masked. A report's page is rendered anew.
"""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from contracts.storage import files
from contracts.versions import served_versions
from contracts.versions.served_versions import EXAMPLES_FILE
from ingest.examples import tf_examples
from ingest.rows.formats import TFRECORD
from ingest.rows.row_errors import DAMAGE
from ingest.rows.row_file import RowFile
from pipeline.operations.person import Person
from report import page
from report.content import PAGE_FILE, Report
from serving import example_records
from serving.json_requests import INSTANCES

_CHUNK = 1 << 24  # bytes of a file that are searched at once

# Files with their new content; None deletes a file.
Rewritten = dict[Path, bytes | None]


def has_text(path: Path, person: Person) -> bool:
    """Returns whether a file has a text, or is a damaged one that may have it."""
    longest = max(map(len, person.encoded))
    end = b""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                content = end + chunk
                if any(text in content for text in person.encoded):
                    return True
                end = chunk[-longest:]
    except DAMAGE:
        return True
    return False


def rewrite(
    path: Path, person: Person, ids: Collection[int] | None, unread: list[str]
) -> Rewritten:
    """Returns the replacement of a text file of a run or a version, if it needs one.

    Args:
      path: The file; the page of a report is rendered anew.
      person: The person.
      ids: The ids of the rows in the run's Examples; None if they had none.
      unread: Gets what is no JSON although its name says so.
    """
    try:
        before = path.read_bytes().decode()
    except UnicodeDecodeError:
        return {}
    if path.suffix == ".jsonl":
        lines = enumerate(before.split("\n"), 1)
        kept = (_rewrite_line(line, person, f"{path}:{n}", unread) for n, line in lines)
        text = "\n".join(line for line in kept if line is not None)
    elif path.suffix == ".json":
        try:
            text = _rewrite_json(path, before, person, ids)
        except ValueError:
            unread.append(f"{path} is not JSON, so it may keep rows")
            text = person.mask(before)
    else:
        text = person.mask(before)
    if text == before and not served_versions.lacks_examples(str(path)):
        return {}
    rewritten: Rewritten = {}
    if path.name == Report.FILE:  # the page first: a killed command repeats it
        rendered = path.with_name(PAGE_FILE)
        rewritten[rendered] = None
        with contextlib.suppress(ValueError):  # of another release
            content = files.parse_record(text, path, Report.FORMAT)
            rewritten[rendered] = page.render(Report.model_validate(content)).encode()
    return {**rewritten, path: text.encode()}


def _rewrite_json(
    path: Path, before: str, person: Person, ids: Collection[int] | None
) -> str:
    content = json.loads(before)
    after = _without(content, person, ids or ())
    if path.name == Report.FILE and ids is not None and "batch" in after:
        after["batch"] = None
    if not str(path).endswith(EXAMPLES_FILE):  # they are rows only
        after = _mask(after, person)
    return before if after == content else json.dumps(after, indent=2) + "\n"


def _rewrite_line(
    line: str, person: Person, place: str, unread: list[str]
) -> str | None:
    """Returns a line of a file of JSON lines; None if it is a row."""
    try:
        content = json.loads(line) if line.strip() else None
    except ValueError:
        unread.append(f"{place} is not JSON, so it may keep a row")
        return person.mask(line)
    values = content.get("values") if isinstance(content, dict) else None
    if isinstance(values, dict) and person.owns(values):
        return None
    masked = _mask(content, person)
    return line if masked == content else json.dumps(masked)


def _mask(content: Any, person: Person) -> Any:
    """Returns the content of a JSON file without the texts."""
    match content:
        case str():
            return person.mask(content)
        case list():
            return [_mask(entry, person) for entry in content]
        case dict():
            return {person.mask(k): _mask(v, person) for k, v in content.items()}
    return content


def _without(content: Any, person: Person, ids: Collection[int], key: str = "") -> Any:
    """Returns the content of a JSON file without the rows in its lists."""
    if isinstance(content, dict):
        return {k: _without(v, person, ids, k) for k, v in content.items()}
    if not isinstance(content, list):
        return content
    kept = (entry for entry in content if not _is_row(entry, person, ids, key))
    return [_without(entry, person, ids) for entry in kept]


def _is_row(entry: Any, person: Person, ids: Collection[int], key: str) -> bool:
    match entry:
        case {"texts": list(texts), "id": row_id}:  # of a report's worst rows
            return person.has(texts) or row_id in ids
        case {"texts": dict(row)}:  # of a check
            return person.owns(row)
        case {"feature": str(column), "value": value}:  # a slice
            return person.owns({column: value})
        case [str(text), int()]:  # a frequent value
            return text in person.texts
    return key == INSTANCES and isinstance(entry, dict) and person.owns(entry)


def rewrite_sample(path: Path, person: Person) -> Rewritten:
    """Returns the replacement of a file with a sample of a server's requests."""
    records = [record for _, record in RowFile(str(path), TFRECORD).read()]
    kept = [
        record
        for record in records
        if isinstance(record, bytes) and not person.owns(tf_examples.to_row(record))
    ]
    if len(kept) == len(records):
        return {}
    return {path: b"".join(map(example_records.encode_record, kept)) or None}
