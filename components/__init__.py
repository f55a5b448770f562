"""Our own TFX components, a folder each."""

import modules as modules  # registers the reader of remote files
from components.artifacts import HTML, DataVerdict, ModelAges, ModelVerdict

__all__ = ["HTML", "DataVerdict", "ModelAges", "ModelVerdict"]
