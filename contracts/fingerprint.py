"""Hashes of code, files and versions, which TFX's cache key does not include."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from contracts.storage import files

# Our packages whose imports a fingerprint follows.
FIRST_PARTY = (
    "components",
    "contracts",
    "ingest",
    "modules",
    "pipeline",
    "portable",
    "prediction",
    "report",
)
# Names of a logger: `logging` is absl's.
LOGGERS = ("logger", "logging")
HASH_BYTES = hashlib.sha256().digest_size
# The libraries that transformed data and a trained model depend on.
TRANSFORM_LIBRARIES = ("tensorflow", "tensorflow-text", "tensorflow-transform")
TRAINER_LIBRARIES = (*TRANSFORM_LIBRARIES, "tf-keras", "tf-models-official")


def of_files(paths: Iterable[str | Path]) -> str:
    """Returns the SHA-256 over the names and contents of files."""
    return of_hashes({str(path): of_file(path) for path in paths})


def of_hashes(hashes: Mapping[str, str]) -> str:
    """Returns the SHA-256 over the names and contents of files."""
    digest = hashlib.sha256()
    for path, of_content in sorted(hashes.items()):
        digest.update(os.path.basename(path).encode() + b"\0")
        digest.update(of_content.encode())
    return digest.hexdigest()


def of_file(path: str | Path) -> str:
    """Returns the SHA-256 of the content of a file, local or remote."""
    digest = hashlib.sha256()
    with files.open_binary(str(path)) as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def of_text(*texts: str) -> str:
    """Returns the SHA-256 of texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def of_json(content: Any) -> str:
    """Returns the SHA-256 of a value as JSON, independent of the order of its keys."""
    return of_text(json.dumps(content, sort_keys=True))


def of_code(*modules: str) -> str:
    """Returns the SHA-256 of modules, of their first-party imports, and of their data.

    TFX's cache key has only a module's import path, so it misses an edit in the module
    or in its imports. The data of a module are the other files in its directory,
    such as templates. Comments, docstrings, formatting, and texts of errors and logs do
    not count. Nor do imports for type checkers, or in a branch that ends in `raise`:
    TFX does not cache a component that failed.

    Args:
      *modules: Import paths; a function's name may follow, as in
        `modules.training.run_fn.run_fn`.
    """
    programs = closure(*modules)
    data = {
        str(path)
        for directory in {Path(origin).parent for origin in programs}
        for path in directory.iterdir()
        if path.is_file() and path.suffix != ".py"
    }
    code = (programs[origin] for origin in sorted(programs))
    return of_text(*code, of_files(data))


def closure(
    *modules: str,
    packages: Collection[str] = FIRST_PARTY,
    directory: str | None = None,
) -> dict[str, str]:
    """Returns the code of modules and of their imports by file.

    Files without code, such as the docstring of a package, are left out.

    Args:
      *modules: Import paths, as in `of_code`.
      packages: The packages whose imports are followed.
      directory: Its files are followed, too.
    """
    programs: dict[str, str] = {}
    pending = list(modules)
    while pending:
        name = pending.pop()
        parent = name.rpartition(".")[0]
        origin: str | None = None
        file = find_file(name, directory) if directory else None
        if file:
            origin = str(file)
        elif name.split(".")[0] in packages:
            name, origin = _find_module(name)
        if directory and parent:
            pending.append(parent)  # Python imports it first
        if origin is None or origin in programs or not origin.endswith(".py"):
            continue
        programs[origin], imports = _parse(Path(origin).read_text(encoding="utf-8"))
        is_package = os.path.basename(origin) == "__init__.py"
        package = name if is_package else name.rpartition(".")[0]
        for imported in imports:
            with contextlib.suppress(ImportError):  # `..` above the top: Python fails
                pending.append(importlib.util.resolve_name(imported, package))
    return {origin: code for origin, code in programs.items() if code}


def find_file(module: str, directory: str) -> Path | None:
    """Returns the file of a module in a directory; None without one."""
    path = Path(directory, *module.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in candidates if file.is_file()), None)


def _find_module(name: str) -> tuple[str, str | None]:
    """Returns the import path and the file of a module, or of a function's module."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # `name` is a function in a module
        name = name.rpartition(".")[0]
        spec = importlib.util.find_spec(name)
    return name, spec.origin if spec else None


def library_versions(names: Iterable[str]) -> dict[str, str]:
    """Returns the installed version of each library; empty if it is not installed.

    A result depends on them as it does on our code: another version of TensorFlow must
    not reuse it.
    """
    installed = {}
    for name in names:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = ""
    return installed


class _Program(ast.NodeTransformer):
    """Reduces a syntax tree to what runs."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """Removes `if TYPE_CHECKING:`."""
        name = node.test.id if isinstance(node.test, ast.Name) else None
        return None if name == "TYPE_CHECKING" else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Removes a string that is a statement: a docstring."""
        is_docstring = isinstance(node.value, ast.Constant) and isinstance(
            node.value.value, str
        )
        return None if is_docstring else self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Removes the texts of errors, and of variables set directly before `raise`."""
        super().generic_visit(node)
        for _, block in ast.iter_fields(node):
            is_message = False
            for statement in reversed(block if isinstance(block, list) else []):
                is_message = isinstance(statement, ast.Raise) or (
                    is_message and isinstance(statement, ast.Assign)
                )
                if is_message:
                    _WithoutTexts().visit(statement)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Removes the texts of a function that returns an error."""
        self.generic_visit(node)
        is_name = isinstance(node.returns, ast.Name | ast.Attribute)
        returns = ast.unparse(node.returns) if node.returns and is_name else ""
        is_error = returns.endswith(("Error", "Exception"))
        return _WithoutTexts().visit(node) if is_error else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Removes the texts of a call of a logger."""
        self.generic_visit(node)
        logger = node.func.value if isinstance(node.func, ast.Attribute) else None
        is_log = isinstance(logger, ast.Name) and logger.id in LOGGERS
        return _WithoutTexts().visit(node) if is_log else node


class _WithoutTexts(ast.NodeTransformer):
    """Empties the strings of a syntax tree."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Empties a string."""
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Removes the values, too."""
        return ast.Constant("")


@functools.cache
def _parse(code: str) -> tuple[str, tuple[str, ...]]:
    """Returns the code without docstrings, or "", and its imports.

    Cached, because several components import the same file.
    """
    program = _Program().visit(ast.parse(code))
    return ast.dump(program) if program.body else "", tuple(_imports(program))


def _imports(program: ast.AST) -> list[str]:
    names = []
    pending: list[ast.AST] = [program]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise):
            pending += node.orelse
        else:
            pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names += [module] if node.module else []
            prefix = f"{module}." if node.module else module
            names += [f"{prefix}{alias.name}" for alias in node.names]
    return names
