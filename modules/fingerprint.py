"""Content hashes, so that TFX's cache sees what its own key does not."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

_FIRST_PARTY = ("pipeline", "components", "modules")
_CHUNK_BYTES = 1 << 20
# What transformed data and a trained model depend on beside our code.
TRANSFORM_LIBRARIES = ("tensorflow", "tensorflow-text", "tensorflow-transform")
TRAINER_LIBRARIES = (*TRANSFORM_LIBRARIES, "tf-keras", "tf-models-official")


def of_files(paths: Iterable[str | Path]) -> str:
    """Returns the SHA-256 over the names and contents of files."""
    digest = hashlib.sha256()
    for path in sorted(str(path) for path in paths):
        digest.update(os.path.basename(path).encode() + b"\0")
        digest.update(of_file(path).encode())
    return digest.hexdigest()


def of_file(path: str | Path) -> str:
    """Returns the SHA-256 of the content of a file, local or remote."""
    digest = hashlib.sha256()
    with open_file(str(path)) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def of_package(name: str) -> str:
    """Returns the SHA-256 of all files of a package, scripts and data included.

    Args:
      name: Import path of a package without packages in it.
    """
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (directory,) = spec.submodule_search_locations
    return of_files(path for path in Path(directory).iterdir() if path.is_file())


def open_file(path: str) -> IO[bytes]:
    """Opens a file for reading, local or remote."""
    if "://" not in path:
        return open(path, "rb")
    from tensorflow.io import gfile

    return gfile.GFile(path, "rb")


def of_text(*texts: str) -> str:
    """Returns the SHA-256 of texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def of_json(content: Any) -> str:
    """Returns the SHA-256 of what JSON can hold, whatever the order of its keys."""
    return of_text(json.dumps(content, sort_keys=True))


def of_code(module: str) -> str:
    """Returns the SHA-256 of a module and of all it imports from this project.

    TFX's cache key names a module by its import path alone, so an edit in it, or in
    what it imports, would otherwise go unseen.

    Args:
      module: Import path; a function's name may follow, as in
        `modules.training.run_fn.run_fn`.
    """
    sources: dict[str, str] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        origin = _origin(name)
        if origin is None or origin in sources:
            continue
        sources[origin] = Path(origin).read_text(encoding="utf-8")
        pending += _imports(sources[origin])
    return of_text(*(sources[origin] for origin in sorted(sources)))


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Returns the installed version of each library; empty if it is not installed.

    A result is made by our code and its libraries: TFX's cache and the checkpoints of
    one TensorFlow must not pass for those of another.

    Args:
      names: Names of distributions.
    """
    installed = {}
    for name in names:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = ""
    return installed


def _imports(source: str) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.split(".")[0] in _FIRST_PARTY]


def _origin(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # `name` is a function in a module
        spec = importlib.util.find_spec(name.rpartition(".")[0])
    return spec.origin if spec else None
