"""Serves models over TensorFlow Serving's REST API."""
