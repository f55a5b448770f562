"""A portable model behind the server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from contracts.versions import exported_model, served_versions
from contracts.versions.exported_model import (
    CLASS,
    CLASS_ID,
    COLUMN,
    CUT,
    END,
    LABELS,
    LOGITS,
    PORTABLE_FILE,
    PROBABILITIES,
    SCORE,
    SERVING_DEFAULT,
    START,
    TOKEN,
    TOKENIZE,
)
from portable import folder
from portable.model import PortableModel
from serving import model_files
from serving.model_facts import ServedModel
from serving.signatures import Signature, Tensors, TensorSpec

_REFUSED = (
    "it takes tf.Examples, which need TensorFlow: serve the SavedModel with "
    "`bert-pipeline serve`"
)
_TYPES = {  # of TensorFlow's protocol
    np.dtype(object): "DT_STRING",
    np.dtype(np.int64): "DT_INT64",
    np.dtype(np.float32): "DT_FLOAT",
}
_STRING, _INT, _FLOAT = _TYPES


class PortableServedModel(ServedModel):
    """A portable model in the memory of this process.

    Args:
      directory: The version: a portable folder, or a pushed model with one.
      version: Its number.
      file: The ONNX file.
      threads: Threads of an operator; None takes one a core.
    """

    def __init__(
        self, directory: Path, version: int, file: str, threads: int | None
    ) -> None:
        path = served_versions.model_directory(str(directory), PORTABLE_FILE)
        self._model = PortableModel(path, file=file, threads=threads)
        described = self._model.description
        texts = {name: TensorSpec(_STRING, (None,)) for name in described.text_columns}
        kind = described.label_kind
        rows = (None, len(kind.names))
        outputs: dict[str, TensorSpec] = {SCORE: TensorSpec(_FLOAT, (None,))}
        if kind.names:
            outputs = {
                LOGITS: TensorSpec(_FLOAT, rows),
                PROBABILITIES: TensorSpec(_FLOAT, rows),
            }
        if kind.has_flags:
            outputs[LABELS] = TensorSpec(_INT, rows)
        elif kind.names:
            outputs[CLASS] = TensorSpec(_STRING, (None,))
            outputs[CLASS_ID] = TensorSpec(_INT, (None,))
        tokens = {
            TOKEN: TensorSpec(_STRING, (None, None)),
            **{name: TensorSpec(_INT, (None, None)) for name in (COLUMN, START, END)},
            CUT: TensorSpec(_INT, (None, len(texts))),
        }
        signatures = {
            name: Signature(
                name, dict(sorted(texts.items())), dict(sorted(returned.items()))
            )
            for name, returned in ((SERVING_DEFAULT, outputs), (TOKENIZE, tokens))
        }
        # A folder in a pushed version shares the files of the version.
        of_version = served_versions.CARD_FILE, served_versions.EXAMPLES_FILE
        of_folder = folder.CARD_FILE, folder.EXAMPLES_FILE
        card, examples = of_folder if path == str(directory) else of_version
        super().__init__(
            card=directory / card,
            version=version,
            signatures=signatures,
            signature_metadata={
                "signature_def": {
                    name: _as_signature_def(signature)
                    for name, signature in signatures.items()
                }
            },
            text_columns=list(described.text_columns),
            description=model_files.describe(
                described.model_dump(mode="json"), directory / examples
            ),
            refused_signatures=dict.fromkeys(
                (
                    exported_model.SERVE_EXAMPLES,
                    exported_model.TRANSFORM_FEATURES,
                    exported_model.SLICE_FEATURES,
                ),
                _REFUSED,
            ),
        )

    @property
    def is_alive(self) -> bool:
        """Whether it can run; True as long as this process does."""
        return True

    def close(self) -> None:
        """Frees what Python does not; nothing."""

    def run(self, signature: str, inputs: Tensors) -> dict[str, np.ndarray]:
        """Runs a signature; see `ServedModel.run`."""
        columns = [inputs[name].tolist() for name in self.text_columns or ()]
        run = {
            SERVING_DEFAULT: self._model.predict,
            TOKENIZE: self._model.find_tokens,
        }
        return dict(sorted(run[signature](columns).items()))


def load(
    directory: Path,
    version: int,
    *,
    file: str = folder.ONNX_FILE,
    threads: int | None = None,
) -> PortableServedModel:
    """Loads a portable model and warms it up; the arguments are those of the class.

    Raises:
      UsageError: The folder is incomplete or damaged.
    """
    model = PortableServedModel(directory, version, file, threads)
    row = {name: np.array([b""], object) for name in model.text_columns or ()}
    for signature in model.signatures:
        model.run(signature, row)
    return model


def _as_signature_def(signature: Signature) -> dict[str, Any]:
    """Returns a signature as TensorFlow Serving's metadata API does."""
    return {
        "inputs": _as_tensor_infos(signature.inputs),
        "outputs": _as_tensor_infos(signature.outputs),
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }


def _as_tensor_infos(specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    return {
        name: {
            "name": name,
            "dtype": _TYPES[spec.dtype],
            "tensor_shape": {
                "dim": [
                    {"size": str(-1 if size is None else size), "name": ""}
                    for size in spec.shape or ()
                ],
                "unknown_rank": False,
            },
        }
        for name, spec in specs.items()
    }
