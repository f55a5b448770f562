"""Compares finished runs: settings, metrics, and the rows whose prediction changed."""
