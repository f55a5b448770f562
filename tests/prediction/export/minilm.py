"""MiniLM with an untrained head, pushed, and its outputs on MRPC."""

import csv

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from contracts.packing import Packing
from contracts.versions import exported_model
from modules.data import preprocessing
from modules.encoder.directory import open_encoder
from pipeline.config.paths import DEFAULT_CONFIG
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder
from tests import exported

LENGTH = 128


def push(directory):
    """Exports MiniLM for pairs; returns the SavedModel."""
    encoder = open_encoder(resolve_encoder(load_config(DEFAULT_CONFIG)).directory)
    exported.export(directory, "pairs", encoder, LENGTH)
    return directory / "served" / "1"


def read_mrpc(directory):
    """Returns the pairs of all splits."""
    rows = []
    for split in ("train", "validation", "test"):
        with open(directory / f"{split}.tsv", newline="") as file:
            table = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            rows += [(row["sentence1"], row["sentence2"]) for row in table]
    return rows


def tokenize(model, pairs):
    """Returns ids and types of pairs, each a list of lists."""
    packed = preprocessing.text_to_inputs(
        [tf.constant(column) for column in zip(*pairs, strict=True)],
        str(model / exported_model.VOCABULARY_FILE),
        Packing(max_seq_length=LENGTH),
    )
    return packed["input_word_ids"].to_list(), packed["input_type_ids"].to_list()


def predict(model, pairs, batch=64):
    """Returns the logits of `serving_default`."""
    loaded = tf.saved_model.load(str(model))
    logits = []
    for start in range(0, len(pairs), batch):
        first, second = zip(*pairs[start : start + batch], strict=True)
        outputs = loaded.signatures["serving_default"](
            question=tf.constant(first), answer=tf.constant(second)
        )
        logits.append(outputs["logits"].numpy())
    return np.concatenate(logits)
