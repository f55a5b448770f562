"""Compiles the pipeline for Kubeflow and Vertex AI, and starts runs there."""
