"""A portable model without ONNX Runtime."""

import numpy as np
import pytest

from bert_runtime import model
from prediction.predictor import Predictor


class Toy(Predictor):
    """As the models of `tests.toy_models`; the folder is the name of one."""

    def __init__(
        self, directory, min_probability=None, file="model.onnx", threads=None
    ):
        self.loaded = (directory, file, threads)
        columns = ["right", "left"] if directory == "longer" else ["sentence"]
        super().__init__(
            columns,
            is_score=directory == "length",
            labels=("with a", "with b") if directory == "letters" else None,
            min_probability=min_probability,
        )

    def outputs(self, texts):
        """Returns the outputs of the signature `serving_default`."""
        if self.is_score:
            lengths = list(map(len, texts["sentence"]))
            return {"score": np.array(lengths, np.float32) / 10}
        if self.labels:
            flags = np.array([["a" in text, "b" in text] for text in texts["sentence"]])
            return {"labels": flags, "probabilities": np.where(flags, 0.9, 0.2)}
        pairs = zip(texts["right"], texts["left"], strict=True)
        class_id = np.array([len(left) > len(right) for right, left in pairs], int)
        shares = np.where(np.eye(2)[class_id], 0.9, 0.1)
        names = np.array([b"first", b"second"], object)
        return {"class": names[class_id], "class_id": class_id, "probabilities": shares}


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """Loads a `Toy` instead of a folder."""
    monkeypatch.setattr(model, "RuntimePredictor", Toy)
    monkeypatch.setattr(model, "find_model", lambda folder, main_file: folder)
