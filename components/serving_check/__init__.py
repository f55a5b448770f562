"""Checks that a model serves, and predicts as it did in the evaluation."""

from components.serving_check.check import check_model
from components.serving_check.component import ServingCheck, read_report
from components.serving_check.permuted_columns import PermutedColumns, read_permuted
from components.serving_check.request import ServingRequest
from components.serving_check.swapped_words import SwappedText, read_swapped

__all__ = [
    "PermutedColumns",
    "ServingCheck",
    "ServingRequest",
    "SwappedText",
    "check_model",
    "read_permuted",
    "read_report",
    "read_swapped",
]
