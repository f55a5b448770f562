"""A portable model in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_runtime.arguments import MinProbability, Threads, checked
from contracts.versions.exported_model import PORTABLE_FILE
from portable.folder import INT8_FILE, ONNX_FILE
from prediction.model_directory import find_model
from prediction.predictor import Predictor
from prediction.texts import predict_frame, predict_rows, read_texts

if TYPE_CHECKING:
    import pandas as pd


class Model:
    """A model that `bert-pipeline export --format onnx` wrote.

    Args:
      folder: The folder, or a directory of versions.
      min_probability: Predict no class with a probability below it.
      int8: Whether the weights in int8 are loaded, if the folder has them.
      threads: Threads of ONNX Runtime; None takes one for each core.

    Attributes:
      columns: The model's text columns.
      labels: The names of several labels; None for any other model.

    Raises:
      UsageError: There is no such model, it is damaged, or there is a least probability
        and the model predicts no class.
    """

    @checked
    def __init__(
        self,
        folder: str | Path,
        *,
        min_probability: MinProbability | None = None,
        int8: bool = False,
        threads: Threads | None = None,
    ) -> None:
        self._predictor = open_predictor(
            os.fspath(folder), min_probability, is_int8=int8, threads=threads
        )
        self.columns = self._predictor.columns
        self.labels = self._predictor.labels

    def predict(self, texts: Any) -> list[dict[str, Any]] | pd.DataFrame:
        """Predicts the class, the labels or the score of texts.

        Args:
          texts: Texts; pairs, for a model of pairs; a Series of either; or a DataFrame
            with the model's text columns.

        Returns:
          For each row its texts, `prediction` and, for a class, `probability`; for
          several labels `probability_LABEL` of each. For a Series or a DataFrame these
          are columns, with its index. A column of the DataFrame with such a name
          becomes `input_prediction`.

        Raises:
          UsageError: The model takes other texts, or a text is empty.
        """
        given = read_texts(texts, self.columns, "model.predict([text])")
        if given.index is not None:
            return predict_frame(self._predictor, given)
        return predict_rows(self._predictor, given)


class RuntimePredictor(Predictor):
    """A portable model that ONNX Runtime has loaded.

    Args:
      directory: The folder of the model.
      min_probability: As for `Predictor`.
      file: The ONNX file in the folder.
      threads: Threads of ONNX Runtime; None takes one for each core.
    """

    def __init__(
        self,
        directory: str,
        min_probability: float | None = None,
        file: str = ONNX_FILE,
        threads: int | None = None,
    ) -> None:
        # ONNX Runtime takes a part of a second; the arguments are checked before.
        from portable.model import PortableModel

        self._model = PortableModel(directory, file=file, threads=threads)
        described = self._model.description
        kind = described.label_kind
        super().__init__(
            described.text_columns,
            is_score=not kind.names,
            labels=kind.names if kind.has_flags else None,
            min_probability=min_probability,
        )

    def outputs(self, texts: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
        """Returns the outputs of the model by name."""
        return self._model.predict([texts[name] for name in self.columns])


def open_predictor(
    folder: str,
    min_probability: float | None,
    *,
    is_int8: bool,
    threads: int | None,
) -> Predictor:
    """Loads the model of a folder; see `Model`."""
    directory = find_model(folder, PORTABLE_FILE)
    file = INT8_FILE if is_int8 else ONNX_FILE
    return RuntimePredictor(directory, min_probability, file, threads)
