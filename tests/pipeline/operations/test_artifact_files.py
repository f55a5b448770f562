"""Before a run, artifacts whose files have changed are taken out of TFX's cache."""

import logging
import shutil
from pathlib import Path

import pytest

from contracts import written_files
from pipeline.config.paths import OutputPaths
from pipeline.operations import artifact_files
from report.run_metadata import MetadataError, MetadataReader
from tests.refusals import refused


@pytest.fixture(autouse=True)
def shown(caplog):
    """Records what a run shows, whatever other tests hide."""
    caplog.set_level(logging.WARNING, artifact_files.__name__)


@pytest.fixture
def transform(past):
    """The two outputs of a Transform, whose files are recorded."""
    past.run()
    with artifact_files.checked(past.paths):
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
    with artifact_files.checked(past.paths):
        assert deleted(past) == [examples.id]
    assert caplog.messages == [
        f"{examples.uri} is not used from the cache: {count} of its files are missing "
        "or have changed, so Transform runs again where a run needs it"
    ]
    with artifact_files.checked(past.paths):
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
    record = artifact_files.record_of(Path(transform[0].uri))
    if content is None:
        record.unlink()
        record.mkdir()
    else:
        record.write_text(content, errors="surrogateescape")
    with artifact_files.checked(past.paths):
        assert deleted(past) == [transform[0].id]
    assert "1 of its files are missing or have changed" in caplog.text


def test_artifacts_hold_only_what_their_component_wrote(past, transform):
    names = {path.name for path in Path(transform[0].uri).rglob("*") if path.is_file()}
    assert names == {"content", "data-00000-of-00001.gz"}


def test_unchanged_artifacts_stay_in_the_cache(past, transform, caplog):
    for _ in range(2):
        with artifact_files.checked(past.paths):
            pass
    assert deleted(past) == []
    assert caplog.record_tuples == []


def test_artifacts_of_a_failed_run_are_checked_too(past, caplog):
    past.run("failed")
    written = []

    def interrupted():
        with artifact_files.checked(past.paths):
            written.extend(past.execute("StatisticsGen", ["statistics: Statistics"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (statistics,) = written
    Path(statistics.uri, "content").unlink()
    with artifact_files.checked(past.paths):
        assert deleted(past) == [statistics.id]
    assert caplog.record_tuples[0][:2] == (artifact_files.__name__, logging.WARNING)


@pytest.mark.parametrize("error", [ValueError("loss is NaN"), KeyboardInterrupt()])
def test_damaged_database_does_not_replace_the_error_of_a_run(past, caplog, error):
    def fail():
        with artifact_files.checked(past.paths):
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
        artifact_files.checked(past.paths),
    ):
        past.paths.metadata.write_bytes(b"notes" * 999)


def test_killed_run_leaves_an_empty_database(past, tmp_path, caplog):
    paths = OutputPaths(tmp_path / "killed", "tiny")
    paths.root.mkdir()
    paths.metadata.touch()
    with artifact_files.checked(paths):
        assert paths.metadata.stat().st_size == 0
    with artifact_files.checked(paths):  # which TFX fills
        shutil.copy(past.paths.metadata, paths.metadata)
    assert caplog.messages == []


def test_hidden_files_of_a_desktop_are_no_change(past, transform, caplog):
    Path(transform[0].uri, ".DS_Store").touch()
    with artifact_files.checked(past.paths):
        assert deleted(past) == []
    assert caplog.messages == []


def test_killed_run_leaves_a_split_without_records(past, transform, caplog):
    directory = Path(transform[0].uri)
    delete_records(directory)
    artifact_files.record_of(directory).unlink()
    with artifact_files.checked(past.paths):
        assert deleted(past) == [transform[0].id]


def test_directory_is_recorded_again_if_a_new_database_uses_it(past, transform, caplog):
    other = type(past)(past.paths.root.with_name("other"))
    past.paths.metadata.unlink()
    other.run()
    with artifact_files.checked(past.paths):
        artifacts = other.execute("Transform", ["examples: Examples", "graph: Graph"])
        for artifact, old in zip(artifacts, transform, strict=True):
            other.set_uri(artifact, old.uri)
            empty_one(Path(old.uri))
        shutil.copy(other.paths.metadata, past.paths.metadata)
    with artifact_files.checked(past.paths):
        assert deleted(past) == []
    assert caplog.messages == []


def test_files_that_a_command_rewrites_are_recorded_again(past, transform, caplog):
    empty_one(Path(transform[0].uri))
    directory = Path(transform[0].uri)
    written_files.record(directory, artifact_files.record_of(directory))
    with artifact_files.checked(past.paths):
        assert deleted(past) == []
    assert caplog.messages == []


def test_run_after_a_restored_database_writes_to_new_directories(past, transform):
    """TFX names directories after ids, and would add files to those of lost runs."""
    backup = past.paths.metadata.read_bytes()
    past.run()
    (lost,) = past.execute("Transform", ["examples: Examples"])
    past.paths.metadata.write_bytes(backup)
    past.run()
    with artifact_files.checked(past.paths):
        (new,) = past.execute("Transform", ["examples: Examples"])
    assert new.id == lost.id
    assert int(Path(new.uri).name) == int(Path(lost.uri).name) + 1
