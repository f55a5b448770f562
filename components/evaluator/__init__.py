"""Measures a model against thresholds and against the champion, and says why."""

from components.evaluator.component import Evaluator
from components.evaluator.verdict import MetricVerdict, Verdict, read_verdict

__all__ = ["Evaluator", "MetricVerdict", "Verdict", "read_verdict"]
