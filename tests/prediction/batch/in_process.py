"""Predictions of files in this process."""

from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from prediction import batch


def predict_files(model, source, destination, **options):
    """Predicts the rows of files with Beam in this process.

    Args:
      model: As for `batch.predict_files`.
      source: As for `batch.predict_files`.
      destination: As for `batch.predict_files`.
      **options: `batch.BatchOptions`.
    """
    beam_args = beam_arguments(BeamConfig())
    settings = batch.BatchOptions(beam_args=beam_args, **options)
    return batch.predict_files(model, source, destination, settings)
