"""Artifact types and custom properties that several components share.

A container on Kubeflow or Vertex imports an artifact class by its type name, which may
contain only one dot. `components/__init__.py` therefore exports the classes.
"""

from __future__ import annotations

# `tfx.v1` has the class, too, but takes 4 s longer to import.
from tfx.types.artifact import Artifact

# Custom properties of the champion's Model artifact: the directory that serves it, by
# the name that TFX's Pusher uses on a PushedModel, and why it is not a baseline.
PUSHED_DESTINATION = "pushed_destination"
NOT_COMPARED = "not_compared"
# Custom property of a PushedModel: the version of the same model that was rolled back,
# because of which it was not pushed again.
WITHDRAWN_VERSION = "withdrawn_version"
# Custom property of a report's page: what could not be written, and the error.
MISSING = "missing"


class DataVerdict(Artifact):
    """`verdict.json` of DataGate: notes, warnings and a profile of each split."""

    TYPE_NAME = "components.DataVerdict"


class ModelVerdict(Artifact):
    """`verdict.json` of Evaluator: why a model is blessed or not."""

    TYPE_NAME = "components.ModelVerdict"


class HTML(Artifact):
    """A page for people. Compiled jobs have `system.HTML` for it, which is displayed.

    Source: https://www.kubeflow.org/docs/components/pipelines/user-guides/data-handling/artifacts
    """

    TYPE_NAME = "components.HTML"
