"""Finds the model in production, which a candidate is compared with."""

from components.champion.component import Champion, ChampionCheck

__all__ = ["Champion", "ChampionCheck"]
