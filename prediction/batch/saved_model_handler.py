"""Loads and calls the model on a Beam worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from apache_beam.ml.inference import base

from ingest.rows.row_errors import RowError
from modules import environment
from prediction.saved_model.model_description import ModelDescription
from prediction.saved_model.saved_model_predictor import SavedModelPredictor


class SavedModelHandler(base.ModelHandler):
    """Loads a SavedModel once per process, and predicts in batches.

    An example is the texts of a row in the order of `ModelDescription.columns`, or a
    serialized `tf.Example`. Its inference is the columns of its prediction, or a
    `RowError`.

    Args:
      model: The model.
      min_probability: As for `Predictor`.
      batch_rows: Rows per call of the model.
      takes_examples: Whether examples are serialized instead of texts.
    """

    def __init__(
        self,
        model: ModelDescription,
        min_probability: float | None,
        *,
        batch_rows: int,
        takes_examples: bool,
    ) -> None:
        super().__init__(min_batch_size=batch_rows, max_batch_size=batch_rows)
        self._model = model
        self._min_probability = min_probability
        self._takes_examples = takes_examples

    def load_model(self) -> SavedModelPredictor:
        """Loads the model, which Beam shares between the threads of a process."""
        environment.set_up(quiet=True)
        return SavedModelPredictor(self._model.directory, self._min_probability)

    def run_inference(
        self,
        batch: Sequence[Any],
        model: SavedModelPredictor,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[dict[str, Any] | RowError]:
        """Predicts a batch. If the model fails on a row, the others are predicted."""
        import tensorflow as tf  # the process that submits a job does not need it

        try:
            if self._takes_examples:
                predictions = model.predict_examples(batch)
            else:
                predictions = model.predict_batch(batch, self._model.columns)
        except tf.errors.InvalidArgumentError as error:
            if len(batch) == 1:
                return [RowError(f"the model fails: {str(error)[:200]}")]
            half = len(batch) // 2
            return [
                *self.run_inference(batch[:half], model),
                *self.run_inference(batch[half:], model),
            ]
        return [prediction.as_columns() for prediction in predictions]
