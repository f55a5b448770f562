"""Passes the run's parameters, and what a search found, to the Trainer."""

from components.hyperparameters.component import Hyperparameters

__all__ = ["Hyperparameters"]
