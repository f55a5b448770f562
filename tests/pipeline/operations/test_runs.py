"""The runs of an output directory."""

import json
import shutil
import time

import pytest

from pipeline.operations.record import RECORD_FILE, new_run_id
from pipeline.operations.runs import RunList
from tests.refusals import refused


def test_runs_are_listed_from_the_newest_and_a_killed_one_is_interrupted(past):
    first = past.run("pushed", value=0.9, pushed="/serving/1")
    killed = past.run("running")
    last = past.run("refused", reason="accuracy is 0.5")
    runs = RunList(past.paths)
    assert [run.id for run in runs] == [last.id, killed.id, first.id]
    assert [run.state for run in runs] == ["refused", "interrupted", "pushed"]
    assert runs[1].record.tfx_run_id == "2026-01-01T02:00:09"
    assert runs[1].record.seconds is None


def test_run_is_found_by_the_start_of_its_id_and_as_the_latest(past):
    first, second = past.run(), past.run()
    runs = RunList(past.paths)
    assert runs.find("latest").id == second.id
    assert runs.find("20260101-01").id == first.id
    got = f"2026 is ambiguous: {second.id}, {first.id}"
    with refused("E-run-unknown", setting="run", got=got):
        runs.find("2026")
    with refused("E-run-unknown", setting="run", advice="`runs` lists the ids"):
        runs.find("2025")


def test_directory_without_runs_has_no_latest_run(past):
    got = f"no runs in {past.paths.root}"
    with refused("E-run-unknown", setting="output", got=got):
        RunList(past.paths).find("latest")


def test_directories_of_other_programs_are_not_runs(past):
    past.run()
    (past.paths.runs / "notes").mkdir()
    (past.paths.runs / "20270101-000000Z-000000").mkdir()
    assert len(RunList(past.paths)) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"id": "20260101',
        "[1]",
        '{"id": "1", "recipe": "news", "state": "unknown"}',
        '{"id": "1", "recipe": "news", "ended": "2026-01-01T02:00:00"}',
    ],
)
def test_damaged_record_hides_no_other_run(past, content):
    past.run("pushed", pushed="/serving/1")
    damaged = past.run("pushed")
    (past.paths.run(damaged.id) / RECORD_FILE).write_text(content)
    run, other = RunList(past.paths)
    assert run.id == damaged.id
    assert run.state == "failed"
    assert "run.json: cannot be read: " in run.record.damage
    assert other.state == "pushed"


def test_record_of_an_unknown_format_is_refused_and_one_without_a_format_is_read(past):
    for fields in ({"format": 2, "state": "paused"}, {"state": "refused"}):
        record = past.run()
        content = {"id": record.id, "recipe": "tiny", **fields}
        path = past.paths.run(record.id) / RECORD_FILE
        path.write_text(json.dumps(content))
    without, unknown = RunList(past.paths)
    assert without.state == "refused"
    assert unknown.state == "failed"
    assert "run.json" in unknown.record.damage
    assert "this release reads" in unknown.record.damage


def test_copy_of_a_record_is_named_after_its_directory(past):
    run = past.run("refused")
    copy = past.paths.run("20270101-000000Z-000000")
    shutil.copytree(past.paths.run(run.id), copy)
    assert [run.id for run in RunList(past.paths)] == [copy.name, run.id]


def test_file_is_not_a_run(past):
    past.run()
    (past.paths.runs / "20270101-000000Z-000000").write_text("")
    assert len(RunList(past.paths)) == 1


def test_run_that_was_killed_in_another_time_zone_finds_its_components(past, zone):
    zone("Asia/Tokyo")
    first = past.run("running", id=new_run_id())
    time.sleep(0.01)  # ML Metadata counts milliseconds
    zone("America/Los_Angeles")
    second = past.run("running", id=new_run_id())
    runs = RunList(past.paths)
    assert [run.id for run in runs] == [second.id, first.id]
    assert runs[1].record.tfx_run_id == "2026-01-01T01:00:09"
    assert runs[0].record.tfx_run_id == "2026-01-01T02:00:09"
