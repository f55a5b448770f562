"""A SavedModel behind TensorFlow Serving's REST API and its gRPC services."""
