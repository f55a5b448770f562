"""Evaluates a model against thresholds and the champion, and reports why."""

from components.evaluator.component import Evaluator
from components.evaluator.slices import read_slices

__all__ = ["Evaluator", "read_slices"]
