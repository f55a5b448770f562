"""Checks that a model serves, and predicts as it did in the evaluation."""

from components.serving_check.check import check_model
from components.serving_check.component import ServingCheck
from components.serving_check.request import ServingRequest

__all__ = [
    "ServingCheck",
    "ServingRequest",
    "check_model",
]
