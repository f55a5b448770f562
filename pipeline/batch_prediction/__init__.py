"""Predictions of many rows on Beam, from files to files."""

from pipeline.batch_prediction.run import Summary, predict_files

__all__ = ["Summary", "predict_files"]
