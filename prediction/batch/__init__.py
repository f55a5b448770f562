"""Predictions of many rows on Beam, from files to files."""

from ingest import remote as remote  # registers the readers of remote files
from prediction.batch.predict_files import BatchOptions, Summary, predict_files

__all__ = ["BatchOptions", "Summary", "predict_files"]
