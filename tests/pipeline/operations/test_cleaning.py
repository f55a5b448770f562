"""Clean deletes what nothing needs, after it marks it in ML Metadata."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts import fingerprint
from pipeline.operations import cleaning
from pipeline.operations.cleaning import plan
from report.run_metadata import MetadataReader
from tests.refusals import refused

INSTALLED = {
    "code_fingerprint": "of this code",
    "libraries": fingerprint.library_versions(fingerprint.TRAINER_LIBRARIES),
}
OTHER = {**INSTALLED, "code_fingerprint": "of other code"}


@pytest.fixture(autouse=True)
def installed_code(monkeypatch):
    """Replaces the fingerprint of the training, which imports TensorFlow."""
    monkeypatch.setattr(fingerprint, "of_code", lambda _: "of this code")


@pytest.fixture
def train(past):
    """Adds a run with its own training directory; returns that and the model."""

    def train(key, state=mlmd.Execution.COMPLETE, config=OTHER, **fields):
        past.run(**fields)
        examples = past.paths.examples(f"of {key}")
        examples.mkdir(parents=True)
        past.execute("ImportExampleGen", input_base=str(examples))
        directory = past.paths.training / key

        def work():
            directory.mkdir(parents=True)
            use(directory)

        (model,) = past.execute(
            "Trainer",
            ["model: Model"],
            state=state,
            work=work,
            custom_config=json.dumps(config),
        )
        return directory, Path(model.uri), model

    return train


@pytest.fixture
def first(train):
    """The training directory and the model of an old run, which a run follows."""
    old = train("first")
    train("second")
    return old


def use(training, seconds_from_now=0):
    """Writes the lock as a training does; a file's own clock lags by milliseconds."""
    (training / "lock").touch()
    used = time.time() + seconds_from_now
    os.utime(training / "lock", (used, used))


def paths_of(obsolete, kind):
    return [entry.path for entry in obsolete if entry.kind == kind]


def test_outputs_inputs_and_records_of_older_runs_are_deleted(past, first):
    training, model, _ = first
    obsolete = plan(past.paths, keep=1)
    assert paths_of(obsolete, "artifact") == [model]
    assert paths_of(obsolete, "training") == [training]
    assert paths_of(obsolete, "examples") == [past.paths.examples("of first")]
    (record,) = paths_of(obsolete, "run record")
    assert record.name == "20260101-010000Z-000000"
    assert all(entry.size_bytes for entry in obsolete if entry.kind == "artifact")
    assert plan(past.paths, keep=2) == []


def test_runs_that_ended_before_their_first_component_do_not_count(past, train):
    train("first")
    for _ in range(3):
        record = past.run("failed")
        record.tfx_run_id = None
        record.write(past.paths.run(record.id))
    assert plan(past.paths, keep=1) == []


def test_plan_deletes_nothing(past, first):
    _, model, _ = first
    plan(past.paths, keep=1)
    assert model.is_dir()


def test_deleted_artifacts_are_marked_so_that_the_cache_does_not_use_them(past, first):
    _, deleted, artifact = first
    cleaning.delete(past.paths, plan(past.paths, keep=1))
    assert not deleted.exists()
    states = {
        a.id: a.state for a in MetadataReader.of_file(past.paths.metadata).artifacts()
    }
    assert states.pop(artifact.id) == mlmd.Artifact.DELETED
    assert set(states.values()) == {mlmd.Artifact.LIVE}
    assert plan(past.paths, keep=1) == []


def test_link_of_an_old_run_is_deleted_and_what_it_points_to_is_kept(
    past, first, tmp_path
):
    training, model, _ = first
    outside = tmp_path / "outside"
    outside.mkdir()
    for directory in (training, model):
        directory.rename(outside / directory.name)
        directory.symlink_to(outside / directory.name)
    (past.paths.examples("of first") / "link").symlink_to(outside)
    obsolete = plan(past.paths, keep=1)
    assert {training, model} <= {entry.path for entry in obsolete}
    cleaning.delete(past.paths, obsolete)
    assert not training.is_symlink()
    assert not model.is_symlink()
    assert (outside / training.name / "lock").exists()
    assert any((outside / model.name).iterdir())


def test_report_is_deleted_with_the_numbers_next_to_its_page(past, train):
    train("first")
    (report,) = past.execute("Report", ["report: HTML"])
    directory = Path(report.uri)
    past.set_uri(report, directory / "content")
    train("second")
    assert directory in paths_of(plan(past.paths, keep=1), "artifact")


def test_cached_outputs_of_a_kept_run_stay(past, train):
    training, model, artifact = train("first")
    past.run()
    examples = str(past.paths.examples("of first"))
    cached = {"state": mlmd.Execution.CACHED}
    past.execute("ImportExampleGen", **cached, input_base=examples)
    past.execute("Trainer", [artifact], **cached)
    obsolete = plan(past.paths, keep=1)
    assert [entry.kind for entry in obsolete] == ["run record"]
    assert model.is_dir()
    assert training.is_dir()


def test_unfinished_training_stays_as_long_as_this_code_would_resume_it(past, train):
    killed = mlmd.Execution.RUNNING
    resumable, *_ = train("resumable", killed, INSTALLED)
    stale, *_ = train("stale", killed, OTHER)
    train("last")
    obsolete = plan(past.paths, keep=1)
    assert paths_of(obsolete, "training") == [stale]
    assert resumable not in [entry.path for entry in obsolete]


def test_training_of_no_known_run_stays(past, train):
    by_hand, *_ = train("by hand")
    use(by_hand, seconds_from_now=1)
    train("last")
    assert paths_of(plan(past.paths, keep=1), "training") == []


def test_served_model_keeps_its_run_and_an_earlier_version_its_record(
    past, train, push
):
    for version in (1, 2):
        *_, model = train(f"version {version}")
        (pushed,) = past.execute(
            "AtomicPusher", ["pushed_model: PushedModel"], inputs=[model]
        )
        past.set_property(pushed, "pushed_destination", str(push(version)))
    train("not pushed")
    train("last")
    obsolete = plan(past.paths, keep=1)
    trainings = [path.name for path in paths_of(obsolete, "training")]
    assert trainings == ["not pushed", "version 1"]
    records = [path.name for path in paths_of(obsolete, "run record")]
    assert records == ["20260101-030000Z-000000"]
    assert not any("serving" in entry.path.parts for entry in obsolete)


def test_served_model_of_a_run_without_a_record_keeps_its_inputs(past, train, push):
    """`tfx run` writes no record."""
    training, model, artifact = train("served")
    (pushed,) = past.execute(
        "AtomicPusher", ["pushed_model: PushedModel"], inputs=[artifact]
    )
    past.set_property(pushed, "pushed_destination", str(push(1)))
    (record,) = past.paths.runs.iterdir()
    shutil.rmtree(record)
    train("not pushed")
    train("last")
    obsolete = plan(past.paths, keep=1)
    assert [path.name for path in paths_of(obsolete, "training")] == ["not pushed"]
    assert model not in paths_of(obsolete, "artifact")
    assert training.is_dir()


@pytest.mark.usefixtures("first")
def test_copied_output_directory_is_refused(past, tmp_path):
    copy = tmp_path / "copy"
    past.paths.root.rename(copy)
    moved = type(past.paths)(copy, "tiny")
    with refused("E-output-copied", setting=str(moved.metadata)):
        plan(moved, keep=1)
