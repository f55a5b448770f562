"""Predictions of many rows on Beam, from files to files."""

from pipeline.prediction.batch.predict_files import BATCH_ROWS, Summary, predict_files

__all__ = ["BATCH_ROWS", "Summary", "predict_files"]
