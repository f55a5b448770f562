"""Our own TFX components, a folder each."""

from components.artifacts import HTML, DataVerdict, ModelAges, ModelVerdict

__all__ = ["HTML", "DataVerdict", "ModelAges", "ModelVerdict"]
