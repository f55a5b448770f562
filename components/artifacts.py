"""Artifact types of our own.

A container of Kubeflow or Vertex finds the class by its type's name, which may have
one dot only: so they are names of the package.
"""

from __future__ import annotations

from tfx import v1 as tfx

# Custom properties of the champion's Model: the directory that it is served from, as
# TFX's Pusher names it on a PushedModel, and why no candidate is compared with it.
PUSHED_DESTINATION = "pushed_destination"
NOT_COMPARED = "not_compared"


class DataVerdict(tfx.dsl.Artifact):
    """What DataGate found: `verdict.json`, a list of anomalies that did not stop it."""

    TYPE_NAME = "components.DataVerdict"


class ModelVerdict(tfx.dsl.Artifact):
    """Why Evaluator blessed a model or did not: `verdict.json`."""

    TYPE_NAME = "components.ModelVerdict"
