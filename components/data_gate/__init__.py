"""Stops a pipeline on data that training would suffer from."""

from components.data_gate.component import (
    DataAnomaliesError,
    DataGate,
    read_data_verdict,
)

__all__ = ["DataAnomaliesError", "DataGate", "read_data_verdict"]
