"""Serves SavedModels over TensorFlow Serving's REST and gRPC APIs."""
