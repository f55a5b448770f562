"""Settles which model a training starts from."""

from components.warm_start.component import WarmStart

__all__ = ["WarmStart"]
