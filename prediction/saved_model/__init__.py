"""Predictions of SavedModels, which TensorFlow loads."""

import modules as modules  # registers the reader of remote files
