"""Builds and starts the pipeline: recipe, DAG, command line, orchestrators.

The names in `__all__` are the Python API (docs/python.md). They are imported at their
first use: containers, workers and `--help` import this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import modules as modules  # sets TF_USE_LEGACY_KERAS before TensorFlow is imported

if TYPE_CHECKING:
    from contracts.errors import DataRefusedError, UsageError
    from pipeline.api.looking import Comparison, Run, compare, list_runs, load_run
    from pipeline.api.orchestrated import compile_job
    from pipeline.api.predictions import predict, predict_files
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
    "DataRefusedError": "contracts.errors",
    "Inspection": "pipeline.api.recipes",
    "Recipe": "pipeline.api.recipes",
    "Run": "pipeline.api.looking",
    "Server": "pipeline.api.server",
    "UsageError": "contracts.errors",
    "clean": "pipeline.api.releases",
    "compare": "pipeline.api.looking",
    "compile_job": "pipeline.api.orchestrated",
    "inspect": "pipeline.api.recipes",
    "lineage": "pipeline.api.releases",
    "list_runs": "pipeline.api.looking",
    "list_versions": "pipeline.api.releases",
    "load_run": "pipeline.api.looking",
    "override": "pipeline.api.releases",
    "predict": "pipeline.api.predictions",
    "predict_files": "pipeline.api.predictions",
    "roll_back": "pipeline.api.releases",
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
    "compile_job",
    "inspect",
    "lineage",
    "list_runs",
    "list_versions",
    "load_run",
    "override",
    "predict",
    "predict_files",
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
