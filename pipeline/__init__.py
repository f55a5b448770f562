"""Builds and starts the pipeline: recipe, DAG, command line, orchestrators.

The names in `__all__` are the Python API (docs/python.md). They are imported at their
first use: containers, workers and `--help` import this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import modules as modules  # sets TF_USE_LEGACY_KERAS before TensorFlow is imported
from ingest import remote as remote  # registers the readers of remote files

if TYPE_CHECKING:
    from contracts.errors import DataRefusedError as DataRefusedError
    from contracts.errors import UsageError as UsageError
    from pipeline.api.checking import ChecksReport as ChecksReport
    from pipeline.api.checking import check as check
    from pipeline.api.looking import Comparison as Comparison
    from pipeline.api.looking import Run as Run
    from pipeline.api.looking import compare as compare
    from pipeline.api.looking import list_runs as list_runs
    from pipeline.api.looking import load_run as load_run
    from pipeline.api.orchestrated import compile_job as compile_job
    from pipeline.api.predictions import predict as predict
    from pipeline.api.predictions import predict_files as predict_files
    from pipeline.api.recipes import Inspection as Inspection
    from pipeline.api.recipes import Recipe as Recipe
    from pipeline.api.recipes import inspect as inspect
    from pipeline.api.releases import clean as clean
    from pipeline.api.releases import forget as forget
    from pipeline.api.releases import lineage as lineage
    from pipeline.api.releases import list_versions as list_versions
    from pipeline.api.releases import override as override
    from pipeline.api.releases import roll_back as roll_back
    from pipeline.api.running import run as run
    from pipeline.api.server import Server as Server
    from pipeline.api.server import serve as serve

_NAMES = {
    "contracts.errors": ("DataRefusedError", "UsageError"),
    "pipeline.api.checking": ("ChecksReport", "check"),
    "pipeline.api.looking": ("Comparison", "Run", "compare", "list_runs", "load_run"),
    "pipeline.api.orchestrated": ("compile_job",),
    "pipeline.api.predictions": ("predict", "predict_files"),
    "pipeline.api.recipes": ("Inspection", "Recipe", "inspect"),
    "pipeline.api.releases": (
        "clean",
        "forget",
        "lineage",
        "list_versions",
        "override",
        "roll_back",
    ),
    "pipeline.api.running": ("run",),
    "pipeline.api.server": ("Server", "serve"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
