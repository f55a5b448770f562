"""Writes blessings as TFX's Evaluator and InfraValidator do."""

from __future__ import annotations

from tfx.dsl.io import fileio
from tfx.types import Artifact
from tfx.utils import io_utils

from contracts.storage import uris

MODEL = ("NOT_BLESSED", "BLESSED")
INFRA = ("INFRA_NOT_BLESSED", "INFRA_BLESSED")


def write_blessing(
    blessing: Artifact, names: tuple[str, str], *, is_blessed: bool
) -> None:
    """Writes the file and the property, and removes what was written before.

    Args:
      blessing: The artifact.
      names: The names of the file without and with a blessing: `MODEL` or `INFRA`.
      is_blessed: Whether the model is blessed.
    """
    for name in names:
        path = uris.join(blessing.uri, name)
        if fileio.exists(path):
            fileio.remove(path)
    io_utils.write_string_file(uris.join(blessing.uri, names[is_blessed]), "")
    blessing.set_int_custom_property("blessed", int(is_blessed))
