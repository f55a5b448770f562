"""Cleaning keeps what a kept run needs, and drops what has changed."""

import contextlib
import json
import logging
import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest
from ml_metadata.proto import metadata_store_pb2 as mlmd

from contracts import fingerprint, written_files
from pipeline.config.paths import OutputPaths
from pipeline.operations import cleaning
from pipeline.operations.cleaning import plan
from report import run_metadata
from report.run_metadata import MetadataError, MetadataReader
from tests.refusals import refused
from tests.unprivileged import unprivileged

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


@pytest.mark.parametrize("content", [None, "torn"])
def test_lost_run_stays_with_its_outputs_and_the_others_are_cleaned(
    past, train, content
):
    _, model, _ = train("first")
    backup = past.paths.metadata.read_bytes()
    _, lost_model, _ = train("lost")
    lost = past.paths.run("20260101-020000Z-000000")
    if content:
        (lost / "run.json").write_text(content)
    past.paths.metadata.write_bytes(backup)
    run_metadata.skip_executions(past.paths.metadata, int(lost_model.name))
    train("third")
    train("last")
    obsolete = plan(past.paths, keep=1)
    trainings = paths_of(obsolete, "training")
    assert trainings == [past.paths.training / "first", past.paths.training / "third"]
    assert paths_of(obsolete, "run record") == [
        past.paths.run(f"20260101-0{hour}0000Z-000000") for hour in (3, 1)
    ]
    artifacts = paths_of(obsolete, "artifact")
    assert model in artifacts
    assert lost_model not in artifacts
    assert past.paths.examples("of lost") not in paths_of(obsolete, "examples")


def test_training_whose_settings_are_lost_is_named_and_kept(past, train, caplog):
    killed, *_ = train("killed", mlmd.Execution.RUNNING)
    train("last")
    with contextlib.closing(sqlite3.connect(past.paths.metadata)) as database:
        database.execute("DELETE FROM ExecutionProperty")
        database.commit()
    obsolete = plan(past.paths, keep=1)
    assert paths_of(obsolete, "training") == []
    assert paths_of(obsolete, "run record")
    (message,) = caplog.messages
    assert "no property custom_config in ML Metadata" in message
    assert message.startswith(f"{killed}: ")
    assert message.endswith("; the training is kept")


def test_directories_without_permission_are_named_and_the_others_deleted(
    past, train, caplog
):
    models = [train(key)[1] for key in ("locked", "second", "last")]
    with unprivileged(past.paths.root) as root:
        paths = OutputPaths(root, "tiny")
        with sqlite3.connect(paths.metadata) as database:
            query = "UPDATE Artifact SET uri = replace(uri, ?, ?)"
            database.execute(query, (str(past.paths.root), str(root)))
        database.close()
        locked, second, last = (root / m.relative_to(past.paths.root) for m in models)
        training = paths.training / "locked"
        for path in (training, locked):
            path.chmod(0)
        with refused("E-storage-failed", setting=str(locked)):
            cleaning.delete(paths, plan(paths, keep=1))
        for path in (training, locked):
            path.chmod(0o700)
        assert (training / "lock").exists()
        assert (locked.exists(), second.exists(), last.exists()) == (True, False, True)
        assert not (paths.training / "second").exists()
    (message,) = caplog.messages
    assert message == (
        f"{training}: cannot be read: Permission denied; the training is kept"
    )


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


@pytest.fixture(autouse=True)
def shown(caplog):
    """Records what a run shows, whatever other tests hide."""
    caplog.set_level(logging.WARNING, cleaning.__name__)


@pytest.fixture
def transform(past):
    """The two outputs of a Transform, whose files are recorded."""
    past.run()
    with cleaning.checking_artifacts(past.paths):
        outputs = past.execute("Transform", ["examples: Examples", "graph: Graph"])
        for output in outputs:
            for split in ("train", "eval"):
                folder = Path(output.uri, f"Split-{split}")
                folder.mkdir()
                (folder / "data-00000-of-00001.gz").write_text(split)
    return outputs


def deleted(past):
    """Returns the ids of the artifacts that TFX's cache no longer returns."""
    artifacts = MetadataReader.of_file(past.paths.metadata).artifacts()
    return [a.id for a in artifacts if a.state == a.DELETED]


def delete_records(directory):
    for path in directory.glob("*/*.gz"):
        path.unlink()


def empty_one(directory):
    next(directory.glob("*/*.gz")).write_text("")


def add_one(directory):
    (directory / "Split-train" / "data-00001-of-00002.gz").write_text("more")


def empty_all(directory):
    for path in directory.rglob("*"):
        if path.is_file():
            path.write_text("")


@pytest.mark.parametrize(
    ("change", "count"),
    [(delete_records, 2), (empty_one, 1), (add_one, 1), (empty_all, 3)],
)
def test_changed_artifact_is_named_and_not_taken_from_the_cache(
    past, transform, caplog, change, count
):
    examples, _ = transform
    change(Path(examples.uri))
    with cleaning.checking_artifacts(past.paths):
        assert deleted(past) == [examples.id]
    assert caplog.messages == [
        f"{examples.uri} is not used from the cache: {count} of its files are missing "
        "or have changed, so Transform runs again where a run needs it"
    ]
    with cleaning.checking_artifacts(past.paths):
        pass
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"files": []}',
        '{"files": {"content": "long"}}',
        '{"format": 9, "files": {}}',
        "[" * 9999,
        "\udcff",
        None,
    ],
    ids=lambda content: repr(content)[:20],
)
def test_damaged_record_counts_as_a_change(past, transform, caplog, content):
    record = cleaning.record_of_files(Path(transform[0].uri))
    if content is None:
        record.unlink()
        record.mkdir()
    else:
        record.write_text(content, errors="surrogateescape")
    with cleaning.checking_artifacts(past.paths):
        assert deleted(past) == [transform[0].id]
    assert "1 of its files are missing or have changed" in caplog.text


def test_artifacts_hold_only_what_their_component_wrote(past, transform):
    names = {path.name for path in Path(transform[0].uri).rglob("*") if path.is_file()}
    assert names == {"content", "data-00000-of-00001.gz"}


def test_unchanged_artifacts_stay_in_the_cache(past, transform, caplog):
    for _ in range(2):
        with cleaning.checking_artifacts(past.paths):
            pass
    assert deleted(past) == []
    assert caplog.record_tuples == []


def test_artifacts_of_a_failed_run_are_checked_too(past, caplog):
    past.run("failed")
    written = []

    def interrupted():
        with cleaning.checking_artifacts(past.paths):
            written.extend(past.execute("StatisticsGen", ["statistics: Statistics"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (statistics,) = written
    Path(statistics.uri, "content").unlink()
    with cleaning.checking_artifacts(past.paths):
        assert deleted(past) == [statistics.id]
    assert caplog.record_tuples[0][:2] == (cleaning.__name__, logging.WARNING)


@pytest.mark.parametrize("error", [ValueError("loss is NaN"), KeyboardInterrupt()])
def test_damaged_database_does_not_replace_the_error_of_a_run(past, caplog, error):
    def fail():
        with cleaning.checking_artifacts(past.paths):
            past.paths.metadata.write_bytes(b"notes" * 999)
            raise error

    with pytest.raises(type(error)) as raised:
        fail()
    assert raised.value is error
    (message,) = caplog.messages
    assert f"{past.paths.metadata}: cannot be read as ML Metadata" in message


def test_run_whose_files_cannot_be_recorded_fails(past):
    with (
        refused("E-record-damaged", kind=MetadataError),
        cleaning.checking_artifacts(past.paths),
    ):
        past.paths.metadata.write_bytes(b"notes" * 999)


def test_killed_run_leaves_an_empty_database(past, tmp_path, caplog):
    paths = OutputPaths(tmp_path / "killed", "tiny")
    paths.root.mkdir()
    paths.metadata.touch()
    with cleaning.checking_artifacts(paths):
        assert paths.metadata.stat().st_size == 0
    with cleaning.checking_artifacts(paths):  # which TFX fills
        shutil.copy(past.paths.metadata, paths.metadata)
    assert caplog.messages == []


def test_hidden_files_of_a_desktop_are_no_change(past, transform, caplog):
    Path(transform[0].uri, ".DS_Store").touch()
    with cleaning.checking_artifacts(past.paths):
        assert deleted(past) == []
    assert caplog.messages == []


def test_killed_run_leaves_a_split_without_records(past, transform, caplog):
    directory = Path(transform[0].uri)
    delete_records(directory)
    cleaning.record_of_files(directory).unlink()
    with cleaning.checking_artifacts(past.paths):
        assert deleted(past) == [transform[0].id]


def test_directory_is_recorded_again_if_a_new_database_uses_it(past, transform, caplog):
    other = type(past)(past.paths.root.with_name("other"))
    past.paths.metadata.unlink()
    other.run()
    with cleaning.checking_artifacts(past.paths):
        artifacts = other.execute("Transform", ["examples: Examples", "graph: Graph"])
        for artifact, old in zip(artifacts, transform, strict=True):
            other.set_uri(artifact, old.uri)
            empty_one(Path(old.uri))
        shutil.copy(other.paths.metadata, past.paths.metadata)
    with cleaning.checking_artifacts(past.paths):
        assert deleted(past) == []
    assert caplog.messages == []


def test_files_that_a_command_rewrites_are_recorded_again(past, transform, caplog):
    empty_one(Path(transform[0].uri))
    directory = Path(transform[0].uri)
    written_files.record(directory, cleaning.record_of_files(directory))
    with cleaning.checking_artifacts(past.paths):
        assert deleted(past) == []
    assert caplog.messages == []


def test_run_after_a_restored_database_writes_to_new_directories(past, transform):
    """TFX names directories after ids, and would add files to those of lost runs."""
    backup = past.paths.metadata.read_bytes()
    past.run()
    (lost,) = past.execute("Transform", ["examples: Examples"])
    past.paths.metadata.write_bytes(backup)
    past.run()
    with cleaning.checking_artifacts(past.paths):
        (new,) = past.execute("Transform", ["examples: Examples"])
    assert new.id == lost.id
    assert int(Path(new.uri).name) == int(Path(lost.uri).name) + 1
