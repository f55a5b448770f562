"""Metrics, and what the Evaluator computes."""
