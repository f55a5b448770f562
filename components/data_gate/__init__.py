"""Stops a pipeline on data that would spoil training or evaluation."""

from components.data_gate.component import DataAnomaliesError, DataGate
from components.data_gate.settings import DataGateSettings

__all__ = ["DataAnomaliesError", "DataGate", "DataGateSettings"]
