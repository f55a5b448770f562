"""Kubeflow Pipelines: compiling for it, submitting to it."""
