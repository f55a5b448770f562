"""What a cluster reads is brought to where it can."""

import concurrent.futures
import os
import threading
from pathlib import Path

import pytest
import tensorflow as tf

from pipeline.config.errors import UsageError
from pipeline.config.paths import ClusterPaths, OutputPaths
from pipeline.config.recipe import load_config
from pipeline.inputs import examples as examples_lib
from pipeline.inputs.encoder_source import resolve_encoder
from pipeline.inputs.resolve import resolve_inputs
from pipeline.orchestrators import staging
from tests import tiny


@pytest.fixture
def config(tmp_path):
    return load_config(tiny.write_config(tmp_path / "recipe.yaml"))


@pytest.fixture
def inputs(config):
    return resolve_inputs(config, OutputPaths.of(config))


@pytest.fixture
def cluster(tmp_path):
    return ClusterPaths(str(tmp_path / "cluster"), "tiny")


def test_everything_is_found_where_the_plan_says(config, inputs, cluster):
    staged = staging.plan(inputs, cluster)
    assert not Path(cluster.root).exists()  # a plan copies nothing
    staging.copy(staged)
    examples = examples_lib.find_examples(staged.inputs.examples.directory)
    assert examples.patterns == staged.inputs.examples.patterns
    moved = {"encoder.source": staged.inputs.encoder.directory}
    found = resolve_encoder(load_config(config_path(inputs), moved))
    assert found == staged.inputs.encoder
    assert Path(staged.inputs.schema_file).read_text() == (
        Path(inputs.schema_file).read_text()
    )


def config_path(inputs):
    return Path(inputs.encoder.directory).parent / "recipe.yaml"


def test_sharded_encoder_is_brought_with_its_index(config, tmp_path, cluster):
    encoder = tmp_path / "encoder"
    os.rename(encoder / "model.safetensors", encoder / "model-1.safetensors")
    names = ", ".join(
        f'"{name}": "model-1.safetensors"' for name in tiny.hugging_face_tensors()
    )
    (encoder / "model.safetensors.index.json").write_text(
        f'{{"weight_map": {{{names}}}}}'
    )
    staged = staging.plan(resolve_inputs(config, OutputPaths.of(config)), cluster)
    staging.copy(staged)
    moved = {"encoder.source": staged.inputs.encoder.directory}
    found = resolve_encoder(load_config(tmp_path / "recipe.yaml", moved))
    assert found.fingerprint == staged.inputs.encoder.fingerprint


def test_place_follows_from_the_content(config, inputs, cluster, tmp_path):
    first = staging.plan(inputs, cluster).inputs
    assert staging.plan(inputs, cluster).inputs == first
    with open(tmp_path / "data" / "train.tsv", "a") as file:
        file.write("900\t1\tThe cat.\tA cat!\n")
    second = staging.plan(resolve_inputs(config, OutputPaths.of(config)), cluster)
    assert second.inputs.examples.directory != first.examples.directory
    assert second.inputs.encoder == first.encoder


def test_copy_is_completed_by_the_next_one_and_then_left(inputs, cluster):
    staged = staging.plan(inputs, cluster)
    told = []
    staging.copy(staged, told.append)
    assert len(told) == len(staged.copies)
    os.remove(staged.copies[0][1])
    told.clear()
    staging.copy(staged, told.append)
    (line,) = told
    assert staged.copies[0][1] in line


def test_two_copies_at_once_do_not_disturb_each_other(inputs, cluster, monkeypatch):
    staged = staging.plan(inputs, cluster)
    both_copied = threading.Barrier(2)
    rename = tf.io.gfile.rename

    def rename_when_both_copied(*arguments, **options):
        both_copied.wait(30)
        rename(*arguments, **options)

    monkeypatch.setattr(tf.io.gfile, "rename", rename_when_both_copied)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for copied in [pool.submit(staging.copy, staged) for _ in range(2)]:
            copied.result(60)
    directories = {Path(destination).parent for _, destination in staged.copies}
    names = [path for each in directories for path in each.iterdir() if path.is_file()]
    assert sorted(map(str, names)) == sorted(path for _, path in staged.copies)


def test_interrupted_copy_leaves_no_incomplete_file(inputs, cluster, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    staged = staging.plan(inputs, cluster)
    monkeypatch.setattr(tf.io.gfile, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        staging.copy(staged)
    assert [path for path in Path(cluster.root).rglob("*") if path.is_file()] == []


def test_place_that_cannot_be_written_is_named(inputs, tmp_path):
    (tmp_path / "file").write_text("")
    staged = staging.plan(inputs, ClusterPaths(str(tmp_path / "file"), "tiny"))
    with pytest.raises(UsageError, match=r"file/inputs/.* cannot be written"):
        staging.copy(staged)


def test_remote_sources_stay_where_they_are(config, inputs, cluster, tmp_path):
    """On TensorFlow's file system in memory, which is as remote as a bucket."""
    root = "ram://staging"
    staging.copy(staging.plan(inputs, ClusterPaths(root, "tiny")))
    remote = staging.plan(inputs, ClusterPaths(root, "tiny")).inputs
    sources = {
        "data.source": remote.examples.directory,
        "encoder.source": remote.encoder.directory,
    }
    there = load_config(tmp_path / "recipe.yaml", sources)
    staged = staging.plan(resolve_inputs(there, OutputPaths.of(there)), cluster)
    assert staged.inputs.examples.directory == remote.examples.directory
    assert staged.inputs.encoder == remote.encoder
    assert [source for source, _ in staged.copies] == [inputs.schema_file]
    assert tf.io.gfile.exists(remote.encoder.vocab_file)


def test_remote_directory_without_examples_is_refused(config, tmp_path):
    tf.io.gfile.makedirs("ram://empty/data")
    there = load_config(tmp_path / "recipe.yaml", {"data.source": "ram://empty/data"})
    with pytest.raises(UsageError, match=r"ram://empty/data has no split train, eval"):
        resolve_inputs(there, OutputPaths.of(there))
