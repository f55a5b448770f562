"""Predictions of files in this process."""

from pipeline.beam import IN_PROCESS
from prediction import batch


def predict_files(model, source, destination, **options):
    """Predicts the rows of files with Beam in this process.

    Args:
      model: As for `batch.predict_files`.
      source: As for `batch.predict_files`.
      destination: As for `batch.predict_files`.
      **options: `batch.BatchOptions`.
    """
    settings = batch.BatchOptions(beam_args=IN_PROCESS, **options)
    return batch.predict_files(model, source, destination, settings)
