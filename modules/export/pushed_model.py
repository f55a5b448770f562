"""A pushed model as weights, vocabulary and settings, read without its graph."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from contracts.errors import UsageError
from contracts.metrics import Threshold
from contracts.packing import Packing
from contracts.storage import files, uris
from contracts.task.definition import find_described_kind
from contracts.task.label_kind import LabelKind
from contracts.tokenization import TokenizerSettings
from contracts.versions import exported_model, served_versions
from contracts.versions.exported_model import SCORE, VARIABLES
from modules.data import tokenizer_files
from modules.encoder import hugging_face
from modules.encoder.model import Shape, check_tensors, variable_shapes
from modules.encoder.restoring import ROOT, ObjectCheckpoint
from modules.encoder_files import SIZE_KEYS, SPECIAL_TOKENS, EncoderError

_HEAD = "sentence_prediction/logits"
# Our name of an activation -> Hugging Face's `hidden_act`.
_ACTIVATIONS = {"gelu": "gelu", "approximate gelu": "gelu_new", "relu": "relu"}


@dataclasses.dataclass(frozen=True)
class PushedModel:
    """A pushed model.

    Attributes:
      directory: The version.
      description: Its `exported_model.read_description`.
      config: Sizes, `hidden_act` and `layer_norm_eps`, under Hugging Face's names.
      words: The vocabulary in the order of the ids.
      tokenizer: The tokenizer's settings.
      packing: How texts become model inputs.
      text_columns: The names of its texts, in order.
      labels: The names of its outputs: the classes, or `score` of a regression.
      kind: What it predicts.
      temperature: What divides the logits before they become probabilities.
      threshold: The probability from which the second class of two is predicted, or
        that from which each of several labels is. None predicts the most probable
        class, or labels from 0.5 on.
      precision: Type of the weights that it was pushed with.
      tensors: float32 weights by the names of `BertForSequenceClassification`. The
        score of a regression is in the units of the labels.
    """

    directory: str
    description: Mapping[str, Any]
    config: Mapping[str, Any]
    words: list[str]
    tokenizer: TokenizerSettings
    packing: Packing
    text_columns: list[str]
    labels: list[str]
    kind: LabelKind
    temperature: float
    threshold: Threshold
    precision: str
    tensors: Mapping[str, np.ndarray]

    @property
    def version(self) -> str:
        """The version's name."""
        return self._path[1]

    @property
    def name(self) -> str:
        """The names of the model and the version."""
        model, version = self._path
        return f"{model}, version {version}"

    @property
    def special_ids(self) -> dict[str, int]:
        """The ids of the tokens that every BERT has."""
        return {token: self.words.index(token) for token in SPECIAL_TOKENS}

    @property
    def _path(self) -> list[str]:
        directory = self.directory.rstrip("/")
        if uris.is_local(directory):
            directory = os.path.abspath(directory)
        return directory.split("/")[-2:]


def read_pushed(directory: str) -> PushedModel:
    """Reads a complete version, or any other SavedModel of this pipeline.

    Raises:
      UsageError: The version is withdrawn, of a later release or of another pipeline,
        or its encoder is not a BERT that Hugging Face's code has.
    """
    parent, version = os.path.split(directory.rstrip("/"))
    if os.path.basename(parent) == served_versions.WITHDRAWN:
        raise UsageError(
            "model",
            f"{directory} was rolled back",
            advice=f"serve it again with `rollback {version}`, and export it then",
            name="E-model-withdrawn",
        )
    described = exported_model.read_description(directory)
    if described is None:
        raise UsageError(
            "model",
            f"{directory} has no {exported_model.DESCRIPTION_FILE}",
            advice="give a model that this pipeline pushed",
            name="E-model-not-found",
        )
    if described["activation"] not in _ACTIVATIONS:
        raise UsageError(
            "model",
            f"{directory} has the activation {described['activation']!r}",
            ", ".join(_ACTIVATIONS),
            name="E-export-unsupported",
        )
    config = {
        **{key: described[key] for key in SIZE_KEYS},
        "hidden_act": _ACTIVATIONS[described["activation"]],
        "layer_norm_eps": described[exported_model.LAYER_NORM_EPS],
    }
    kind = find_described_kind(described)
    labels = [*kind.names] or [SCORE]
    try:
        weights = _read_weights(directory, config, len(labels))
    except EncoderError as error:
        raise UsageError(
            error.setting,
            f"not the weights of a BERT classifier: {error.got}",
            advice="serve the model itself",
            name="E-export-unsupported",
        ) from error
    tensors = {
        f"bert.{name}": tensor
        for name, tensor in hugging_face.to_tensors(weights, config).items()
    }
    mean, std = described.get(exported_model.SCORE_SCALE, (0.0, 1.0))
    head = {part: weights[f"{_HEAD}/{part}"] for part in ("kernel", "bias")}
    # In float64: a large mean must not cost the digits of the score.
    kernel, bias = (head[part].astype(np.float64) * std for part in head)
    tensors["classifier.weight"] = np.ascontiguousarray(kernel.T, np.float32)
    tensors["classifier.bias"] = (bias + mean).astype(np.float32)
    return PushedModel(
        directory=directory,
        description=described,
        config=config,
        words=tokenizer_files.read_words(
            uris.join(directory, exported_model.VOCABULARY_FILE)
        ),
        tokenizer=TokenizerSettings(**described[exported_model.TOKENIZER]),
        packing=Packing.model_validate(
            {key: described[key] for key in Packing.model_fields if key in described}
        ),
        text_columns=described["text_columns"],
        labels=labels,
        kind=kind,
        temperature=described.get(exported_model.TEMPERATURE, 1.0),
        threshold=described.get(exported_model.THRESHOLD),
        precision=described[exported_model.PRECISION],
        tensors=tensors,
    )


def _read_weights(
    directory: str, config: Mapping[str, Any], outputs: int
) -> dict[str, np.ndarray]:
    """Returns the value of each variable by its name, every one checked."""
    folder = uris.join(directory, VARIABLES)
    data = [name for name in files.list_files(folder) if ".data-" in name]
    # The variables of a SavedModel are a checkpoint.
    checkpoint = ObjectCheckpoint(
        uris.join(folder, VARIABLES), [uris.join(folder, name) for name in data]
    )
    nodes = checkpoint.reachable(ROOT)
    keys = {name: key for _, name, key in checkpoint.variables(sorted(nodes))}
    head: dict[str, Shape] = {
        f"{_HEAD}/kernel": (config["hidden_size"], outputs),
        f"{_HEAD}/bias": (outputs,),
    }
    for name in (exported_model.TEMPERATURE, exported_model.THRESHOLD):
        keys.pop(name, None)
    shapes = {name: checkpoint.shapes[key] for name, key in keys.items()}
    check_tensors(checkpoint.path, shapes, {**variable_shapes(config), **head})
    return {name: checkpoint.read(key) for name, key in keys.items()}
