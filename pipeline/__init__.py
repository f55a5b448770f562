"""Builds and starts the pipeline: recipe, DAG, command line, orchestrators.

The names in `__all__` are the Python API (docs/python.md). They are imported at their
first use: containers, workers and `--help` import this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import modules as modules  # sets TF_USE_LEGACY_KERAS before TensorFlow is imported

if TYPE_CHECKING:
    from modules.errors import DataRefusedError, UsageError
    from pipeline.api.looking import Comparison, Run, compare, list_runs, load_run
    from pipeline.api.predictions import predict
    from pipeline.api.recipes import Inspection, Recipe, inspect
    from pipeline.api.releases import (
        clean,
        lineage,
        list_versions,
        override,
        roll_back,
    )
    from pipeline.api.running import run
    from pipeline.api.server import Server, serve

_MODULES = {
    "Comparison": "pipeline.api.looking",
    "DataRefusedError": "modules.errors",
    "Inspection": "pipeline.api.recipes",
    "Recipe": "pipeline.api.recipes",
    "Run": "pipeline.api.looking",
    "Server": "pipeline.api.server",
    "UsageError": "modules.errors",
    "compare": "pipeline.api.looking",
    "inspect": "pipeline.api.recipes",
    "list_runs": "pipeline.api.looking",
    "clean": "pipeline.api.releases",
    "lineage": "pipeline.api.releases",
    "list_versions": "pipeline.api.releases",
    "override": "pipeline.api.releases",
    "roll_back": "pipeline.api.releases",
    "load_run": "pipeline.api.looking",
    "predict": "pipeline.api.predictions",
    "run": "pipeline.api.running",
    "serve": "pipeline.api.server",
}

__all__ = [
    "Comparison",
    "DataRefusedError",
    "Inspection",
    "Recipe",
    "Run",
    "Server",
    "UsageError",
    "clean",
    "compare",
    "inspect",
    "lineage",
    "list_runs",
    "list_versions",
    "load_run",
    "override",
    "predict",
    "roll_back",
    "run",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
