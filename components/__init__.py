"""Our own TFX components, a folder each."""

from components.artifacts import HTML, DataVerdict, ModelVerdict

__all__ = ["HTML", "DataVerdict", "ModelVerdict"]
