"""Predictions of a pushed model."""
