"""Metrics, and the configuration of the Evaluator."""
