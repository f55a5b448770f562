"""Stops a pipeline on data that would spoil training or evaluation."""

from components.data_gate.component import DataAnomaliesError, DataGate
from components.data_gate.verdict import read_data_verdict

__all__ = ["DataAnomaliesError", "DataGate", "read_data_verdict"]
