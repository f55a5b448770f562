"""Stops a pipeline if its data does not match the schema."""

from components.data_gate.component import DataAnomaliesError, DataGate

__all__ = ["DataAnomaliesError", "DataGate"]
