"""Predictions of a pushed model."""

import modules as modules  # registers the reader of remote files
