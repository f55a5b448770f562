"""Finds the model that a candidate must not fall behind."""

from components.champion.strategy import LatestBlessedOtherModelStrategy

__all__ = ["LatestBlessedOtherModelStrategy"]
