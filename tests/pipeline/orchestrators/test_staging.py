"""Inputs are copied to where the orchestrator can read them."""

import concurrent.futures
import dataclasses
import itertools
import json
import os
import re
import threading
import time
from pathlib import Path

import pytest
import tensorflow as tf

from contracts.errors import UsageError
from contracts.records.labelled_rows import LabelledFile, LabelledRow, read_rows
from contracts.storage import files
from ingest import examples as examples_lib
from modules.data.source_rows import LOCATIONS_FILE, LocationWriter
from pipeline.config.paths import OrchestratorPaths, OutputPaths
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder
from pipeline.inputs.resolve import resolve_inputs
from pipeline.inputs.resolved_checks import ResolvedChecks
from pipeline.inputs.resolved_redaction import ResolvedRedaction
from pipeline.orchestrators import staging
from tests import tiny
from tests.refusals import refused


@pytest.fixture
def config(tmp_path):
    return load_config(tiny.write_config(tmp_path / "recipe.yaml"))


@pytest.fixture
def inputs(config):
    return resolve_inputs(config, OutputPaths.of(config))


@pytest.fixture
def paths(tmp_path):
    return OrchestratorPaths(str(tmp_path / "root"), "tiny")


def test_inputs_are_copied_to_their_planned_locations(config, inputs, paths):
    staged = staging.plan(inputs, paths)
    assert not Path(paths.root).exists()  # a plan copies nothing
    staging.copy(staged)
    examples = examples_lib.find_examples(staged.inputs.examples.directory)
    assert examples.patterns == staged.inputs.examples.patterns
    moved = {"encoder.source": staged.inputs.encoder.directory}
    copied = resolve_encoder(load_config(config_path(inputs), moved))
    assert copied == staged.inputs.encoder
    assert Path(staged.inputs.schema_file).read_text() == (
        Path(inputs.schema_file).read_text()
    )


def test_origins_of_records_are_copied_next_to_them(inputs, paths):
    train = Path(inputs.examples.directory) / "train"
    with LocationWriter(train) as writer:
        writer.add("/data/train.tsv", 2)
    staged = staging.plan(inputs, paths)
    staging.copy(staged)
    directory = Path(staged.inputs.examples.directory)
    copied = (directory / "train" / LOCATIONS_FILE).read_text()
    assert copied == (train / LOCATIONS_FILE).read_text()
    examples = examples_lib.find_examples(str(directory))
    records = examples_lib.list_examples(examples, "train")
    assert [Path(path).parent.name for path in records] == ["train"]


def config_path(inputs):
    return Path(inputs.encoder.directory).parent / "recipe.yaml"


def test_sharded_encoder_is_copied_with_its_index(config, tmp_path, paths):
    encoder = tmp_path / "encoder"
    os.rename(encoder / "model.safetensors", encoder / "model-1.safetensors")
    names = ", ".join(
        f'"{name}": "model-1.safetensors"' for name in tiny.hugging_face_tensors()
    )
    (encoder / "model.safetensors.index.json").write_text(
        f'{{"weight_map": {{{names}}}}}'
    )
    staged = staging.plan(resolve_inputs(config, OutputPaths.of(config)), paths)
    staging.copy(staged)
    moved = {"encoder.source": staged.inputs.encoder.directory}
    copied = resolve_encoder(load_config(tmp_path / "recipe.yaml", moved))
    assert copied.fingerprint == staged.inputs.encoder.fingerprint


def test_location_depends_on_the_content(config, inputs, paths, tmp_path):
    first = staging.plan(inputs, paths).inputs
    assert staging.plan(inputs, paths).inputs == first
    with open(tmp_path / "data" / "train.tsv", "a") as file:
        file.write("900\t1\tThe cat.\tA cat!\n")
    second = staging.plan(resolve_inputs(config, OutputPaths.of(config)), paths)
    assert second.inputs.examples.directory != first.examples.directory
    assert second.inputs.encoder == first.encoder


def test_rows_and_modules_of_checks_are_copied_by_their_content(
    config, inputs, paths, tmp_path
):
    rows = tmp_path / "required" / LabelledFile.FILE
    LabelledFile(rows=[LabelledRow(texts={"a": "b"}, label=1)]).write(str(rows.parent))
    (tmp_path / "package").mkdir()
    for name in ("mine.py", "package/near.py"):
        (tmp_path / name).write_text(f"NAME = {name!r}\n")
    checks = ResolvedChecks(
        sections={"mine:Check": {"rows": str(rows), "limit": 1}, "other": {}},
        fingerprints={"mine:Check": "hash", "other": "hash"},
        directory=str(tmp_path),
        modules=("mine.py", "package/near.py"),
        rows=(("mine:Check", "rows"),),
        data_checks=("mine:Check",),
    )
    inputs = dataclasses.replace(inputs, checks=checks)
    staged = staging.plan(inputs, paths)
    moved = staged.inputs.checks
    staging.copy(staged)
    root = f"{paths.root}/inputs"
    assert moved.directory.startswith(f"{root}/checks/")
    assert files.list_files(moved.directory) == ["mine.py", "package/near.py"]
    section = moved.sections["mine:Check"]
    assert section["rows"].startswith(f"{root}/labelled_rows/")
    assert read_rows(section["rows"]) == read_rows(str(rows))
    assert section["limit"] == 1
    assert moved.of_data.sections == {"mine:Check": section}
    assert checks.sections["mine:Check"]["rows"] == str(rows)  # of the local run
    assert moved.fingerprints == checks.fingerprints
    (tmp_path / "package" / "near.py").write_text("NAME = 'edited'\n")
    again = staging.plan(inputs, paths).inputs.checks
    assert again.directory != moved.directory
    assert again.sections == moved.sections


def test_module_of_redact_is_copied(inputs, paths, tmp_path):
    (tmp_path / "hide_of_a_test.py").write_text("def hide(row):\n    return None\n")
    redaction = ResolvedRedaction(
        "hide_of_a_test:hide", str(tmp_path), ("hide_of_a_test.py",), "hash"
    )
    staged = staging.plan(dataclasses.replace(inputs, redaction=redaction), paths)
    staging.copy(staged)
    moved = staged.inputs.redaction
    assert moved.directory.startswith(f"{paths.root}/inputs/redact/")
    assert files.list_files(moved.directory) == ["hide_of_a_test.py"]
    assert dataclasses.replace(moved, directory=str(tmp_path)) == redaction


def test_second_copy_copies_only_what_is_missing(inputs, paths):
    staged = staging.plan(inputs, paths)
    messages = []
    staging.copy(staged, messages.append)
    assert len(messages) == len(staged.copies)
    os.remove(staged.copies[0][1])
    messages.clear()
    staging.copy(staged, messages.append)
    (line,) = messages
    assert staged.copies[0][1] in line


def test_arguments_of_beam_are_replaced_if_they_changed(paths):
    file = f"{paths.root}/beam.json"
    messages = []
    for runner in ("a", "a", "b"):
        staged = staging.StagedInputs(None, [], file, (f"--runner={runner}",))
        staging.copy(staged, messages.append)
    content = {"format": 1, "arguments": ["--runner=b"]}
    assert json.loads(Path(file).read_text()) == content
    assert messages == [f"writing Beam's arguments to {file}"] * 2


def test_copies_at_the_same_time_leave_complete_files(inputs, paths, monkeypatch):
    staged = staging.plan(inputs, paths)
    both_copied = threading.Barrier(2)
    rename = tf.io.gfile.rename

    def rename_when_both_copied(*arguments, **options):
        both_copied.wait(30)
        rename(*arguments, **options)

    monkeypatch.setattr(tf.io.gfile, "rename", rename_when_both_copied)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for copied in [pool.submit(staging.copy, staged) for _ in range(2)]:
            copied.result(60)
    files = [str(path) for path in Path(paths.root).rglob("*") if path.is_file()]
    assert sorted(files) == sorted(path for _, path in staged.copies)


def test_interrupted_copy_leaves_no_incomplete_file(inputs, paths, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    staged = staging.plan(inputs, paths)
    monkeypatch.setattr(files, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        staging.copy(staged)
    assert [path for path in Path(paths.root).rglob("*") if path.is_file()] == []


def test_destination_that_cannot_be_written_is_named(inputs, tmp_path):
    (tmp_path / "file").write_text("")
    staged = staging.plan(inputs, OrchestratorPaths(str(tmp_path / "file"), "tiny"))
    setting = re.compile("/file/inputs/")
    with refused("E-storage-failed", setting=setting):
        staging.copy(staged)


@pytest.mark.parametrize("present", [(), ("train",)])
def test_remote_directory_without_examples_is_refused(
    config, tmp_path, bucket, object_store, present
):
    for split in present:
        object_store.write(f"{bucket}/data/{split}/data.tfrecord", b"")
    there = load_config(tmp_path / "recipe.yaml", {"data.source": f"{bucket}/data"})
    with refused("E-split-missing", setting=f"{bucket}/data"):
        resolve_inputs(there, OutputPaths.of(there))


@pytest.fixture
def remote_paths(bucket):
    return OrchestratorPaths(f"{bucket}/root", "tiny")


def test_inputs_in_a_bucket_are_read_from_there(
    config, inputs, remote_paths, tmp_path, bucket, object_store
):
    staged = staging.plan(inputs, remote_paths)
    staging.copy(staged)
    assert [f"{bucket}/{key}" for key in object_store.keys(bucket)] == sorted(
        destination for _, destination in staged.copies
    )
    for source, destination in staged.copies:
        assert object_store.read(destination) == Path(source).read_bytes()
    sources = {
        "data.source": staged.inputs.examples.directory,
        "encoder.source": staged.inputs.encoder.directory,
    }
    there = load_config(tmp_path / "recipe.yaml", sources)
    resolved = resolve_inputs(there, OutputPaths.of(there))
    assert resolved.examples.patterns == staged.inputs.examples.patterns
    assert resolved.encoder == staged.inputs.encoder
    again = staging.plan(resolved, remote_paths)
    assert again.inputs.examples.directory == staged.inputs.examples.directory
    assert [source for source, _ in again.copies] == [inputs.schema_file]


def test_second_copy_to_a_bucket_writes_only_changed_arguments_of_beam(
    inputs, remote_paths, bucket, object_store
):
    file = f"{remote_paths.root}/beam.json"
    staged, changed = (
        dataclasses.replace(
            staging.plan(inputs, remote_paths),
            beam_file=file,
            beam_arguments=(f"--runner={runner}",),
        )
        for runner in ("a", "b")
    )
    staging.copy(staged)
    keys = object_store.keys(bucket)
    object_store.refuse_after(bucket, 0)
    messages = []
    staging.copy(staged, messages.append)
    assert messages == []
    object_store.accept_all()
    staging.copy(changed)
    content = {"format": 1, "arguments": ["--runner=b"]}
    assert json.loads(object_store.read(file)) == content
    assert object_store.keys(bucket) == keys


def test_copy_that_was_killed_is_completed_by_the_next(bucket, object_store, tmp_path):
    (tmp_path / "file").write_text("content")
    for writes in itertools.count():
        destination = f"{bucket}/{writes}/file"
        staged = staging.StagedInputs(None, [(str(tmp_path / "file"), destination)])
        object_store.refuse_after(bucket, writes)
        try:
            staging.copy(staged)
        except UsageError:
            object_store.accept_all()
            staging.copy(staged)
            assert object_store.read(destination) == b"content"
        else:
            break
    assert writes == 3  # it is written, copied and deleted


@pytest.mark.parametrize("problem", ["missing", "forbidden"])
def test_unavailable_bucket_is_named_at_once(
    inputs, remote_paths, bucket, object_store, problem
):
    if problem == "missing":
        remote_paths = OrchestratorPaths("gs://no-such-bucket/root", "tiny")
    object_store.refuse_after(bucket, 0)
    start = time.monotonic()
    setting = re.compile("^gs://.*/root/inputs/")
    with refused("E-storage-failed", setting=setting):
        staging.copy(staging.plan(inputs, remote_paths))
    assert time.monotonic() - start < 10
