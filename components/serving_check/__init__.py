"""Tells whether a model would serve, and as it was evaluated."""

from components.serving_check.check import ServingReport, ServingRequest, check_model
from components.serving_check.component import ServingCheck, read_reasons

__all__ = [
    "ServingCheck",
    "ServingReport",
    "ServingRequest",
    "check_model",
    "read_reasons",
]
