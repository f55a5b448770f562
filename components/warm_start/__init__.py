"""Chooses the model that a training starts from."""

from components.warm_start.component import WarmStart, WarmStartError

__all__ = ["WarmStart", "WarmStartError"]
