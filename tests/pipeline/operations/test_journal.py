"""The journal of a served directory keeps what it has, whatever happens to it."""

import datetime
import json
import logging

import pytest

from contracts.errors import UsageError
from contracts.storage import json_lines
from pipeline.operations import journal
from pipeline.operations.journal import Release
from tests.refusals import refused

# As releases without `confirmed` and `previous` wrote it.
BEFORE = (
    '{"format": 1, "action": "override", "version": 7, "reason": "a typo", "by": "a@b",'
    ' "time": "2026-11-25T02:45:00+00:00", "run": "20261125-014907Z-000000",'
    ' "withdrawn": []}\n'
    '{"format": 1, "action": "rollback", "version": 6, "reason": "", "by": "a@b",'
    ' "time": "2026-11-25T02:46:00+00:00", "run": null, "withdrawn": [7]}\n'
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / journal.FILE
    path.write_text(BEFORE)
    return path


def test_journal_of_an_earlier_format_is_read(file, tmp_path):
    assert [release.confirmed for release in journal.read(tmp_path)] == [True, True]
    assert journal.override_of(journal.read(tmp_path), 7).reason == "a typo"
    assert journal.withdrawal_of(journal.read(tmp_path), 7).version == 6


def test_time_of_a_decision_is_written_in_utc(tmp_path, zone):
    zone("America/Los_Angeles")
    before = datetime.datetime.now(datetime.timezone.utc)
    journal.add(tmp_path, Release(action="rollback", version=7))
    written = json.loads((tmp_path / journal.FILE).read_text())["time"]
    assert written.endswith(("Z", "+00:00"))
    zone("Asia/Tokyo")
    (release,) = journal.read(tmp_path)
    assert datetime.timedelta(0) <= release.time - before < datetime.timedelta(hours=1)


def test_intent_is_replaced_by_the_next_decision_of_its_kind(file, tmp_path):
    for run in ("a", "b"):
        journal.add(
            tmp_path, Release(action="override", version=8, run=run, confirmed=False)
        )
    journal.add(tmp_path, Release(action="rollback", version=7, confirmed=False))
    journal.add(tmp_path, Release(action="override", version=9, run="a"))
    assert [
        (release.action, release.version, release.run)
        for release in journal.read(tmp_path)[2:]
    ] == [("override", 8, "b"), ("rollback", 7, None), ("override", 9, "a")]
    assert journal.find_intent(tmp_path, "override", "a") is None
    assert journal.find_intent(tmp_path, "override", "b").version == 8
    assert journal.find_intent(tmp_path, "rollback").version == 7


def test_error_between_the_two_records_leaves_the_intent(tmp_path):
    with (
        refused("E-storage-failed"),
        journal.recording(tmp_path, Release(action="rollback", version=7)),
    ):
        raise UsageError(got="7 cannot be moved", name="E-storage-failed")
    (release,) = journal.read(tmp_path)
    assert not release.confirmed


@pytest.mark.parametrize("torn", ['{"format": 1, "act', '"rollback"', "\0\0\0"])
def test_line_that_was_not_written_whole_is_skipped(file, tmp_path, caplog, torn):
    file.write_text(BEFORE + torn)
    with caplog.at_level(logging.WARNING, logger=json_lines.logger.name):
        assert len(journal.read(tmp_path)) == 2
    assert "releases.jsonl:3 is not a record and is skipped" in caplog.text
    journal.add(tmp_path, Release(action="rollback", version=8))
    assert [release.version for release in journal.read(tmp_path)] == [7, 6, 8]


def test_line_that_an_editor_left_without_its_end_counts(file, tmp_path):
    file.write_text(BEFORE.rstrip("\n"))
    journal.add(tmp_path, Release(action="rollback", version=8))
    assert [release.version for release in journal.read(tmp_path)] == [7, 6, 8]


def test_record_of_a_later_format_is_refused(file, tmp_path):
    file.write_text(BEFORE.replace('"format": 1', '"format": 2'))
    with refused("E-file-format-other"):
        journal.read(tmp_path)
