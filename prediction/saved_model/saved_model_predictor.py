"""Loads a SavedModel and predicts with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from contracts.storage import uris
from contracts.versions.exported_model import (
    LABELS,
    SCORE,
    SERVE_EXAMPLES,
    SERVING_DEFAULT,
)
from contracts.versions.served_versions import VersionError
from prediction.model_directory import read_description
from prediction.predictor import Prediction, Predictor


class SavedModelPredictor(Predictor):
    """A loaded SavedModel.

    Args:
      directory: The SavedModel.
      min_probability: As for `Predictor`.

    Attributes:
      signatures: Its signatures by name.

    Raises:
      UsageError: As for `Predictor`; or the names of its labels are missing, or a file
        is damaged.
    """

    def __init__(self, directory: str, min_probability: float | None = None) -> None:
        import tensorflow as tf  # takes seconds; the settings are checked before
        import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

        self._tf = tf
        try:
            self._model = tf.saved_model.load(directory)
        except (IndexError, OSError, tf.errors.OpError) as error:
            if not uris.is_local(directory):  # perhaps the storage fails
                raise
            raise VersionError(
                directory,
                f"it cannot be loaded: {str(error).splitlines()[0]}",
                advice="copy the whole directory again, or give another version",
                name="E-model-damaged",
            ) from error
        self.signatures = self._model.signatures
        outputs = self.signatures[SERVING_DEFAULT].structured_outputs
        labels = None
        if LABELS in outputs:
            labels = tuple(read_description(directory)["classes"])
        super().__init__(
            # A signature sorts its arguments by name.
            [name.decode() for name in self._model.text_columns().numpy()],
            is_score=SCORE in outputs,
            labels=labels,
            min_probability=min_probability,
        )

    def outputs(self, texts: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        """Returns the outputs of one call of `serving_default` by name."""
        inputs = {name: self._tf.constant(column) for name, column in texts.items()}
        return self._call(SERVING_DEFAULT, **inputs)

    def predict_examples(self, batch: Sequence[bytes]) -> list[Prediction]:
        """Predicts serialized `tf.Example`s in one call of `serve_examples`."""
        examples = self._tf.constant(batch)
        return self.to_predictions(self._call(SERVE_EXAMPLES, examples=examples))

    def _call(self, signature: str, **inputs: Any) -> dict[str, np.ndarray]:
        outputs = self.signatures[signature](**inputs)
        return {name: tensor.numpy() for name, tensor in outputs.items()}
