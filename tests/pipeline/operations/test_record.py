"""Every run leaves a record of how it ended, also if it was killed."""

import datetime
import json
import subprocess
import sys

import pytest

from contracts.commits import Commit, Commits
from contracts.errors import DataRefusedError, UsageError
from pipeline.operations import runs
from pipeline.operations.record import (
    RECORD_FILE,
    RunRecord,
    match_tfx_run,
    new_run_id,
    read_record,
)
from pipeline.operations.run import Run, recording

HOLD = """
import sys, time
from contracts.storage import file_lock
with file_lock.hold(sys.argv[1], f"process 1, run /output/runs/{sys.argv[2]}\\n"):
    print("held", flush=True)
    time.sleep(600)
"""
ID = "20260101-010000Z-000000"


@pytest.fixture
def record(past):
    """Records a run of an action; returns the record."""

    def record(action, **fields):
        entry = RunRecord(id=ID, recipe="tiny", metric="accuracy", **fields)
        with recording(Run(past.paths, entry)):
            action(entry)
        return read(past)

    return record


def read(past):
    return read_record(past.paths.run(ID))


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (
            DataRefusedError(got="train.tsv:3: label is '7'", name="E-bad-rows"),
            "data refused",
        ),
        (
            UsageError(got="encoder x is not a directory", name="E-encoder-not-found"),
            "failed",
        ),
        (ValueError("loss is NaN"), "failed"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_error_ends_the_record_with_its_state_and_message(record, past, error, state):
    def fail(_):
        raise error

    with pytest.raises(type(error)):
        record(fail)
    ended = read(past)
    assert (ended.state, ended.reason) == (state, str(error))
    assert ended.ended is not None


def test_damaged_database_does_not_replace_the_error_of_a_run(record, past):
    def fail(_):
        past.paths.metadata.write_bytes(b"")
        raise ValueError("loss is NaN")

    with pytest.raises(ValueError, match="loss is NaN"):
        record(fail)
    assert (read(past).state, read(past).reason) == ("failed", "loss is NaN")


def test_outcome_of_a_finished_run_is_recorded(record):
    refused = record(
        lambda entry: entry.finish(None, "accuracy is 0.5", 0.5, {"slices": "refused"})
    )
    assert (refused.state, refused.reason) == ("refused", "accuracy is 0.5")
    assert (refused.metric, refused.value) == ("accuracy", 0.5)
    assert refused.checks == {"slices": "refused"}


def test_commits_are_recorded_before_the_first_component(record, past):
    commits = Commits(code=Commit(id="0123456789abcdef", changes=["modules/a.py"]))
    before = []
    after = record(lambda _: before.append(read(past)), commits=commits)
    assert before[0].commits == after.commits == commits


def test_record_has_the_number_of_its_format(record, past):
    record(lambda _: None)
    text = (past.paths.run(ID) / RECORD_FILE).read_text()
    assert json.loads(text)["format"] == 1


def test_run_is_recorded_as_running_until_it_ends(record, past):
    states = []
    record(lambda _: states.append(read(past).state))
    assert states == ["running"]


def test_running_id_is_that_of_the_process_that_holds_the_lock(past):
    assert runs.running_id(past.paths) is None
    command = [sys.executable, "-c", HOLD, str(past.paths.lock), ID]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        assert runs.running_id(past.paths) == ID
    finally:
        process.kill()
        process.communicate()
    assert runs.running_id(past.paths) is None


@pytest.mark.parametrize("name", ["America/Los_Angeles", "Asia/Tokyo", "UTC"])
def test_run_has_its_start_in_utc_in_its_name_and_its_record(past, zone, name):
    zone(name)
    before = datetime.datetime.now(datetime.timezone.utc)
    run_id = new_run_id()
    after = datetime.datetime.now(datetime.timezone.utc)
    assert f"{before:%Y%m%d-%H%M%SZ-%f}" <= run_id <= f"{after:%Y%m%d-%H%M%SZ-%f}"
    with recording(Run(past.paths, RunRecord(id=run_id, recipe="tiny"))):
        pass
    content = json.loads((past.paths.run(run_id) / RECORD_FILE).read_text())
    assert content["ended"].endswith(("Z", "+00:00"))
    zone("Asia/Kolkata")  # whoever reads it is elsewhere
    record = read_record(past.paths.run(run_id))
    assert before <= record.started <= record.ended
    assert 0 <= record.seconds < 60
    assert record.started.utcoffset() == datetime.timedelta(0)


def test_duration_is_unknown_if_the_clock_was_set_back():
    record = RunRecord(
        id="20251125-100000Z-000000", recipe="", ended="2025-11-25T09:59:59Z"
    )
    assert record.seconds is None


def test_tfx_run_belongs_to_a_record_by_the_time_when_ml_metadata_stored_it():
    """TFX names a run after the local time of its process, wherever that was."""
    hours = [
        datetime.datetime(2026, 1, 1, hour, 0, 9, tzinfo=datetime.timezone.utc)
        for hour in (1, 2)
    ]
    tfx_runs = {
        "2026-01-01T10:00:08": hours[0],  # in Tokyo
        "2025-12-31T18:00:08": hours[1],  # in Los Angeles
    }
    for record, following, expected in (
        ("20260101-010000Z-000000", "20260101-020000Z-000000", "2026-01-01T10:00:08"),
        ("20260101-020000Z-000000", None, "2025-12-31T18:00:08"),
        ("20260101-013000Z-000000", "20260101-020000Z-000000", None),
    ):
        assert match_tfx_run(tfx_runs, record, following) == expected
