"""Beam's arguments that are no part of TFX's cache key."""

import apache_beam as beam

from pipeline.beam import beam_arguments
from pipeline.beam.configured_runner import configure
from pipeline.config.beam import BeamConfig


def test_components_see_the_same_arguments_on_every_runner():
    here = configure(beam_arguments(BeamConfig()))
    workers = BeamConfig(runner="multi_processing", workers=3)
    assert configure(beam_arguments(workers)) == here


def test_pipeline_runs_with_the_configured_arguments(tmp_path):
    arguments = configure(beam_arguments(BeamConfig()))
    with beam.Pipeline(argv=list(arguments)) as pipeline:
        rows = pipeline | beam.Create(["a", "b"])
        rows | beam.io.WriteToText(str(tmp_path / "out"))
    written = "".join(path.read_text() for path in tmp_path.glob("out*"))
    assert sorted(written.split()) == ["a", "b"]
