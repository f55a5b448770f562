"""Finds the model that a candidate must not fall behind."""

from components.champion.component import Champion

__all__ = ["Champion"]
