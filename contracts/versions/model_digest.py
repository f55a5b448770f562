"""Digests of an exported model, for components that only identify it.

An orchestrator copies every input artifact to the component's machine. The digests are
in the `ModelRun`, so that only components that load the model have it as an input.
"""

from __future__ import annotations

import dataclasses

from contracts import fingerprint
from contracts.storage import files, uris
from contracts.versions.saved_model_files import FINGERPRINT_FILE, GRAPH_FILE

_FILE = "model.json"


@dataclasses.dataclass(frozen=True)
class ModelDigest:
    """The digests of a SavedModel.

    Attributes:
      uri: The directory that it was exported to.
      identity: SHA-256 of `fingerprint.pb`, which differs between two exports; empty if
        the model lacks this file.
      graph: SHA-256 of `saved_model.pb`.
    """

    uri: str
    identity: str
    graph: str


def write(model: str, directory: str) -> None:
    """Writes the digests of a model."""
    graph = fingerprint.of_file(uris.join(model, GRAPH_FILE))
    digest = ModelDigest(model, identity(model), graph)
    files.write_record(uris.join(directory, _FILE), dataclasses.asdict(digest))


def read(directory: str) -> ModelDigest:
    """Returns the digests in the directory of a `ModelRun`."""
    return ModelDigest(**files.read_record(uris.join(directory, _FILE)))


def identity(model: str) -> str:
    """Returns the SHA-256 of a SavedModel's `fingerprint.pb`; empty if it lacks one."""
    # `tf.saved_model.save` writes a random identifier of the save into this file.
    path = uris.join(model, FINGERPRINT_FILE)
    return "" if files.size(path) is None else fingerprint.of_file(path)
