"""Evaluates a model against thresholds and the champion, and reports why."""

from components.evaluator.component import Evaluator

__all__ = ["Evaluator"]
