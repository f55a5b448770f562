"""The runs of an output directory, also those of earlier releases."""

import shutil

import pytest
from ml_metadata.proto import metadata_store_pb2 as mlmd

from pipeline.config.errors import UsageError
from pipeline.history.runs import RunList


def test_runs_are_listed_from_the_newest_and_a_killed_one_is_interrupted(past):
    first = past.run("pushed", value=0.9, pushed="/serving/1")
    killed = past.run("running")
    last = past.run("refused", reason="accuracy is 0.5")
    runs = RunList(past.paths)
    assert [run.id for run in runs] == [last.id, killed.id, first.id]
    assert [run.state for run in runs] == ["refused", "interrupted", "pushed"]
    assert runs[1].tfx_run_id == "2026-01-01T02:00:09"
    assert runs[1].seconds is None


def test_run_is_found_by_the_start_of_its_id_and_as_the_latest(past):
    first, second = past.run(), past.run()
    runs = RunList(past.paths)
    assert runs.find("latest").id == second.id
    assert runs.find("20260101-01").id == first.id
    with pytest.raises(UsageError, match=f"{second.id}, {first.id}"):
        runs.find("2026")
    with pytest.raises(UsageError, match="whose id starts so"):
        runs.find("2025")


def test_directory_without_runs_has_no_latest_one(past):
    with pytest.raises(UsageError, match="there are no runs"):
        RunList(past.paths).find("latest")


def verdict(past, **content):
    (artifact,) = past.execute("Evaluator", ["verdict: components.ModelVerdict"])
    failures = content.pop("failures", [])
    metric = {"metric": "accuracy", "value": 0.5, "failures": failures}
    past.write_json(artifact, "verdict.json", {"metrics": [metric], **content})


def test_outcome_of_an_earlier_release_is_read_from_ml_metadata(past):
    refused = past.run()
    past.write_by_earlier_release(refused)
    verdict(past, blessed=False, failures=["accuracy is 0.5, the threshold is 0.9"])
    past.execute("AtomicPusher", ["pushed_model: PushedModel"])
    failed = past.run()
    past.write_by_earlier_release(failed)
    past.execute("DataGate", state=mlmd.Execution.FAILED)
    killed = past.run()
    past.write_by_earlier_release(killed)
    past.execute("Trainer", state=mlmd.Execution.RUNNING)

    runs = RunList(past.paths)
    assert [r.state for r in runs] == ["interrupted", "data refused", "refused"]
    assert runs[2].reason == "accuracy is 0.5, the threshold is 0.9"
    assert (runs[2].metric, runs[2].value) == ("accuracy", 0.5)


def test_directories_of_other_programs_are_no_runs(past):
    past.run()
    (past.paths.runs / "notes").mkdir()
    assert len(RunList(past.paths)) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", ""),
        ("run.json", '{"id": "20260101'),
        ("run.json", '{"id": "1", "recipe": "news", "state": "of a later release"}'),
        ("run.json", '{"id": "1", "recipe": "news", "ended": "2026-01-01T02:00:00"}'),
        ("config.yaml", "[1]"),
        ("config.yaml", "name: ["),
        ("config.yaml", "task: null"),
    ],
)
def test_damaged_record_hides_no_other_run(past, name, content):
    past.run("pushed", pushed="/serving/1")
    damaged = past.run("pushed")
    past.write_by_earlier_release(damaged)
    (past.paths.run(damaged.id) / name).write_text(content)
    record, other = RunList(past.paths)
    assert record.id == damaged.id
    assert record.state == "failed"
    assert record.reason.startswith("its record cannot be read: ")
    assert other.state == "pushed"


def test_copy_of_a_record_is_named_after_its_directory(past):
    run = past.run("refused")
    copy = past.paths.run("20270101-000000-000000")
    shutil.copytree(past.paths.run(run.id), copy)
    assert [run.id for run in RunList(past.paths)] == [copy.name, run.id]


def test_file_is_no_run(past):
    past.run()
    (past.paths.runs / "20270101-000000-000000").write_text("")
    assert len(RunList(past.paths)) == 1
