"""Evaluates a model against thresholds and the champion, and reports why."""

from components.evaluator.component import Evaluator
from components.evaluator.verdict import MetricVerdict, Verdict, read_verdict

__all__ = ["Evaluator", "MetricVerdict", "Verdict", "read_verdict"]
