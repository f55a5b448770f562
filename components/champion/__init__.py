"""Finds the model that a candidate must not fall behind."""

from components.champion.component import Champion, ChampionCheck
from components.champion.executor import ChampionError

__all__ = ["Champion", "ChampionCheck", "ChampionError"]
