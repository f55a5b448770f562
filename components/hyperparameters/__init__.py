"""Passes the run's parameters to the Trainer."""

from components.hyperparameters.component import Hyperparameters

__all__ = ["Hyperparameters"]
