"""Beam's runners on a job server: lost work is repeated, and nothing is left of it."""

import logging
import uuid

import apache_beam as beam
import pytest
import tensorflow as tf
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.beam import beam_arguments, unfinished
from pipeline.config.beam import BeamConfig
from pipeline.config.errors import UsageError


class FailOnce(beam.DoFn):
    """Fails at its first element, which a file remembers."""

    def __init__(self, marker):
        self.marker = marker

    def process(self, element):
        if not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("this worker is lost")
        yield element


def run_on_flink(directory, restarts):
    """Writes ten lines on a local Flink, with one loss."""
    try:
        config = BeamConfig(runner="flink", workers=1, restarts=restarts)
        arguments = beam_arguments(config)
    except UsageError as error:
        pytest.skip(str(error))
    with beam.Pipeline(options=PipelineOptions(list(arguments))) as pipeline:
        (
            pipeline
            | beam.Create(map(str, range(10)))
            | beam.ParDo(FailOnce(directory / "lost"))
            | beam.io.WriteToText(str(directory / "lines"))
        )


def test_folders_of_lost_attempts_are_deleted_at_the_end_of_a_job(tmp_path):
    attempt = uuid.uuid1().hex
    lost = tmp_path / f"beam-temp-lines-{attempt}" / "2c3d"
    lost.mkdir(parents=True)
    (lost / "shard").write_text("of a lost attempt\n")
    others = [
        tmp_path / f"beam-temp-{name}-{attempt}" for name in ("words", "lines-more")
    ]
    for other in others:
        other.mkdir()
    options = PipelineOptions(
        [
            "--runner=pipeline.beam.job_runners.PortableRunner",
            "--job_endpoint=embed",
            "--environment_type=beam:env:embedded_python:v1",
        ]
    )
    with beam.Pipeline(options=options) as pipeline:
        lines = pipeline | beam.Create(["line"])
        lines | beam.io.WriteToText(str(tmp_path / "lines"))
    assert {*tmp_path.iterdir()} == {*others, tmp_path / "lines-00000-of-00001"}
    assert (tmp_path / "lines-00000-of-00001").read_text() == "line\n"


def test_folder_that_cannot_be_deleted_is_a_warning(tmp_path, monkeypatch, caplog):
    (tmp_path / f"beam-temp-lines-{uuid.uuid1().hex}").mkdir()

    def fail(path):
        raise tf.errors.PermissionDeniedError(None, None, "not allowed")

    monkeypatch.setattr(tf.io.gfile, "rmtree", fail)
    caplog.set_level(logging.WARNING, "pipeline")
    unfinished.delete_unfinished([str(tmp_path / "lines")])
    assert "lines: unfinished files were not deleted: not allowed" in caplog.text


@pytest.mark.slow
def test_local_flink_repeats_lost_work(tmp_path):
    run_on_flink(tmp_path, restarts=1)
    lines = [line for file in tmp_path.glob("lines-*") for line in file.open()]
    assert sorted(lines) == [f"{number}\n" for number in range(10)]
    assert (tmp_path / "lost").exists()


@pytest.mark.nightly
def test_local_flink_repeats_nothing_without_restarts(tmp_path):
    with pytest.raises(RuntimeError, match="this worker is lost"):
        run_on_flink(tmp_path, restarts=0)
    assert [path.name for path in tmp_path.iterdir()] == ["lost"]
