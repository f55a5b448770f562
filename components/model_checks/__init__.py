"""Checks of a model besides its metrics: a file each, and a user's own.

from components.model_checks import Check, CheckResult, CheckSettings
"""

from components.model_checks.check import (
    Check,
    Data,
    Model,
    NotApplicable,
    Prediction,
    Rows,
)
from contracts.records.checks import CheckResult, ShownRow, Table
from contracts.settings.checks import CheckSettings, LabelledRows

__all__ = [
    "Check",
    "CheckResult",
    "CheckSettings",
    "Data",
    "LabelledRows",
    "Model",
    "NotApplicable",
    "Prediction",
    "Rows",
    "ShownRow",
    "Table",
]
