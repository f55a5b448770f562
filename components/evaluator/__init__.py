"""Evaluates a model against thresholds and the champion, and reports why."""

from components.evaluator.component import Evaluator
from components.evaluator.slices import read_slices
from components.evaluator.verdict import read_verdict

__all__ = ["Evaluator", "read_slices", "read_verdict"]
