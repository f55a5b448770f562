"""Stops a pipeline on data that does not fit its schema."""

from components.data_gate.component import DataAnomaliesError, DataGate

__all__ = ["DataAnomaliesError", "DataGate"]
