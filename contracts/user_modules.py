"""Loads modules that a user wrote: files beside a recipe."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

from contracts import fingerprint
from contracts.errors import SettingError
from contracts.storage import files, uris


def fetch(directory: str | None, target: str) -> str | None:
    """Returns a local directory of a user's modules.

    Args:
      directory: Contains them, local or remote; None without any.
      target: Where remote files are copied to.
    """
    if directory is None or uris.is_local(directory):
        return directory
    files.copy_directory(directory, target)
    return target


def refuse_name(setting: str, module: str) -> None:
    """Refuses the name of a file that would replace another module.

    Args:
      setting: The setting that names the module.
      module: The module.

    Raises:
      SettingError: Another module has the name.
    """
    package = module.partition(".")[0]
    installed = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    owners = {
        "Python": package in sys.stdlib_module_names,
        "this package": package
        in (*fingerprint.FIRST_PARTY, "bert_runtime", "serving"),
        "an installed package": importlib.machinery.PathFinder.find_spec(
            package, installed
        ),
    }
    for owner, is_owner in owners.items():
        if is_owner:
            raise SettingError(
                setting,
                f"{package} is a module of {owner}",
                advice="rename the file",
            )


def load_file(module: str, file: Path, directory: str) -> ModuleType:
    """Runs a file, also if an earlier version of the module is loaded.

    Args:
      module: The name of the module.
      file: Its file.
      directory: Contains the modules that it imports.
    """
    # Installed packages come first: a file beside the recipe may have any name.
    if directory not in sys.path:
        sys.path.append(directory)
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    try:
        spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[module]
        raise
    return loaded
