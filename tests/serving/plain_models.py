"""Models in exported folders that need no library: each returns its texts."""

import json
from pathlib import Path

import numpy as np

from contracts import fingerprint
from contracts.versions import served_versions
from contracts.versions.exported_model import PORTABLE_FILE
from serving.model_facts import ServedModel
from serving.signatures import Signature, TensorSpec
from tests.serving.conftest import Kind

TEXT = TensorSpec(np.dtype(object), (None,))
VERSION = TensorSpec(np.dtype(np.int64), (None,))


class Echo(ServedModel):
    """Returns its texts and its version."""

    is_alive = True

    def run(self, signature, inputs):
        texts = inputs["text"]
        return {"echo": texts, "version": np.full(len(texts), self.version)}

    def close(self):
        """Frees nothing."""


def load(directory, version):
    """Loads a folder that `save` wrote."""
    folder = Path(served_versions.model_directory(str(directory), PORTABLE_FILE))
    content = json.loads((folder / PORTABLE_FILE).read_text())
    outputs = {"echo": TEXT, "version": VERSION}
    return Echo(
        card=folder / "README.md",
        version=version,
        signatures={
            "serving_default": Signature("serving_default", {"text": TEXT}, outputs)
        },
        signature_metadata={"signature_def": {"serving_default": {}}},
        text_columns=["text"],
        description={"classes": content["classes"]},
        refused_signatures={"serve_examples": "this model reads no tf.Example"},
    )


def save(directory, *, is_complete=True):
    """Writes a model, with its manifest if it is complete."""
    directory.mkdir(parents=True)
    (directory / PORTABLE_FILE).write_text(json.dumps({"classes": ["0", "1"]}))
    if is_complete:
        write_manifest(directory)
    return directory


def write_manifest(directory, sha256=""):
    """Writes the manifest of a model, with another hash if one is given."""
    path = directory / PORTABLE_FILE
    described = {
        "size": path.stat().st_size,
        "sha256": sha256 or fingerprint.of_file(str(path)),
    }
    content = {"files": {PORTABLE_FILE: described}}
    (directory / "manifest.json").write_text(json.dumps(content))


PLAIN = Kind(load, None, PORTABLE_FILE)
