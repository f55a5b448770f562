"""Predicting a file with a SavedModel."""

import functools

from prediction import predict_file as predict_file_module
from prediction.model_directory import find_model
from prediction.saved_model.saved_model_predictor import SavedModelPredictor


def predict_file(model, source, target, *, min_probability=None, **options):
    """Predicts as the command does."""
    return predict_file_module.predict_file(
        functools.partial(find_model, str(model)),
        functools.partial(SavedModelPredictor, min_probability=min_probability),
        str(source),
        str(target),
        **options,
    )
