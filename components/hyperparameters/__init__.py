"""Passes the parameters of a run to the Trainer."""

from components.hyperparameters.component import Hyperparameters

__all__ = ["Hyperparameters"]
