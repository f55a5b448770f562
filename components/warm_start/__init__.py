"""Chooses the model that a training starts from."""

from components.warm_start.component import WarmStart

__all__ = ["WarmStart"]
