"""Predictions of a model for texts and for files."""
