"""Artifact types and a custom property that several components share.

A container on Kubeflow or Vertex imports an artifact class by its type name, which may
contain only one dot. Therefore `components/__init__.py` exports the classes.
"""

from __future__ import annotations

# Not from `tfx.v1`, which takes 4 s longer to import.
from tfx.types.artifact import Artifact

# Custom property of the champion's Model artifact: why it is not a baseline.
NOT_COMPARED = "not_compared"


class DataVerdict(Artifact):
    """`verdict.json` of DataGate: notes, warnings and a profile of each split."""

    TYPE_NAME = "components.DataVerdict"


class ModelVerdict(Artifact):
    """`verdict.json` of Evaluator: why a model is blessed or refused."""

    TYPE_NAME = "components.ModelVerdict"


class HTML(Artifact):
    """A page for people. Compiled jobs use `system.HTML`, which orchestrators display.

    Source: https://www.kubeflow.org/docs/components/pipelines/user-guides/data-handling/artifacts
    """

    TYPE_NAME = "components.HTML"
