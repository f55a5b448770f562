"""Predictions of a pushed model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contracts.settings.data import DataConfig
from pipeline.api.arguments import MinProbability, checked
from pipeline.api.data_frames import Texts
from pipeline.api.looking import Run
from pipeline.api.notebook import without_interactive_beam
from pipeline.api.quiet import quiet
from pipeline.api.recipes import Recipe
from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from prediction.model_directory import find_model
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from prediction.texts import predict_frame, read_texts

if TYPE_CHECKING:
    import pandas as pd

    from prediction.batch import Summary


@checked
def predict(
    model: Run | str | Path,
    texts: Texts,
    *,
    min_probability: MinProbability | None = None,
) -> pd.DataFrame:
    """Predicts the class, the labels or the score of texts with a pushed model.

    Args:
      model: A run that pushed a model, or the directory of a pushed model.
      texts: Texts; pairs, for a model of pairs; a Series of either; or a DataFrame with
        the model's text columns.
      min_probability: Predict no class with a probability below it.

    Returns:
      The texts, or the rows of the DataFrame, and the columns `prediction` and, for a
      class, `probability`; for several labels `probability_LABEL` of each. A column of
      the DataFrame with such a name becomes `input_prediction`. The index is that of
      the DataFrame or of the Series.

    Raises:
      UsageError: The run pushed no model, there is no such model, the model takes
        other texts, or a text is empty.
    """
    import pandas as pd  # noqa: F401 (`predict_frame` uses it)

    if isinstance(model, Run):
        model = model.require_pushed()
    directory = find_model(str(model))
    with quiet():
        predictor = SavedModelPredictor(directory, min_probability)
    given = read_texts(texts, predictor.columns, "predict(model, [text])")
    return predict_frame(predictor, given)


@checked
def predict_files(
    model: Run | str | Path,
    source: str | Path,
    destination: str | Path,
    *,
    recipe: Recipe | None = None,
    min_probability: MinProbability | None = None,
    strict: bool = False,
) -> Summary:
    """Predicts any number of rows of files with Beam, and keeps their columns.

    Args:
      model: A run that pushed a model, or the directory of a pushed model.
      source: A file, a directory or a glob.
      destination: A new directory. It appears when it is complete.
      recipe: How the files are read, by its section `data` without `format`, and where
        Beam runs, by `beam`; None uses the defaults.
      min_probability: Predict no class with a probability below it.
      strict: Whether nothing is written if a row cannot be predicted.

    Returns:
      The counts of the rows.

    Raises:
      UsageError: The destination has files, there is no model or no file, the files do
        not fit the model, or `strict` and a row was refused.
    """
    if isinstance(model, Run):
        model = model.require_pushed()
    reading = recipe.settings.data if recipe else DataConfig()
    beam_args = beam_arguments(recipe.settings.beam if recipe else BeamConfig())
    with quiet(), without_interactive_beam():
        from prediction import batch

        options = batch.BatchOptions(
            beam_args,
            # The recipe's format belongs to the recipe's own data.
            reading.model_copy(update={"format": None}),
            is_strict=strict,
            min_probability=min_probability,
        )
        return batch.predict_files(str(model), str(source), str(destination), options)
