"""Predicts with and serves an exported model, without TensorFlow."""
