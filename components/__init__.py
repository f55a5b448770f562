"""Our own TFX components, a folder each."""

from components.artifacts import DataVerdict, ModelVerdict

__all__ = ["DataVerdict", "ModelVerdict"]
