"""Predicts with exported models and serves them, with ONNX Runtime."""
