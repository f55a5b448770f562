"""TFX components of our own, a folder each."""

from components.artifacts import DataVerdict, ModelVerdict

__all__ = ["DataVerdict", "ModelVerdict"]
