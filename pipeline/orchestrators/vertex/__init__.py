"""Vertex AI Pipelines: compiling for it, submitting to it."""
