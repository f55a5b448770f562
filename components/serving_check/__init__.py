"""Checks that a model serves, and predicts as it did in the evaluation."""

from components.serving_check.check import check_model
from components.serving_check.component import ServingCheck, read_report
from components.serving_check.permuted_columns import PermutedColumns, read_permuted
from components.serving_check.request import ServingCheckSettings, ServingRequest

__all__ = [
    "PermutedColumns",
    "ServingCheck",
    "ServingCheckSettings",
    "ServingRequest",
    "check_model",
    "read_permuted",
    "read_report",
]
