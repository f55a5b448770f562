"""Artifact types and a custom property that several components share.

A container on Kubeflow or Vertex imports an artifact class by its type name, which may
contain only one dot. `components/__init__.py` therefore exports the classes.
"""

from __future__ import annotations

# `tfx.v1` has the class, too, but takes 4 s longer to import.
from tfx.types.artifact import Artifact

# Custom property of the champion's Model artifact: why it is not a baseline.
NOT_COMPARED = "not_compared"


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
