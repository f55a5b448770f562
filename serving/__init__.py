"""A SavedModel behind TensorFlow Serving's REST API and its gRPC services."""

from modules import environment as environment  # before anything imports TensorFlow
