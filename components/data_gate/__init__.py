"""Stops a pipeline on data that would spoil training or evaluation."""

from components.data_gate.component import DataAnomaliesError, DataGate

__all__ = ["DataAnomaliesError", "DataGate"]
