"""Starts a compiled pipeline on Kubeflow Pipelines and on Vertex AI Pipelines."""

from pipeline.submission.kubeflow import KubeflowServer, submit_to_kubeflow
from pipeline.submission.run import RunFailedError, RunTimeoutError, SubmittedRun
from pipeline.submission.vertex import submit_to_vertex

__all__ = [
    "KubeflowServer",
    "RunFailedError",
    "RunTimeoutError",
    "SubmittedRun",
    "submit_to_kubeflow",
    "submit_to_vertex",
]
