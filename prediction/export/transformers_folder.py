"""A model as a folder for Hugging Face's Transformers."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import safetensors.numpy

from contracts.errors import UsageError
from contracts.storage import files
from contracts.versions import exported_model
from modules.encoder_files import (
    HUGGING_FACE_CONFIG,
    HUGGING_FACE_WEIGHTS,
    MASK_TOKEN,
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG,
    TOKENIZER_FILE,
    VOCAB_FILE,
)
from modules.export import tokenizer_json
from modules.export.pushed_model import PushedModel
from portable.folder import INPUTS


def refuse_other_packing(model: PushedModel) -> None:
    """Refuses a model whose texts Hugging Face's code cannot pack.

    Raises:
      UsageError: The model reads windows, or keeps another part than the first tokens.
    """
    for key, reads in (
        (exported_model.LONG_TEXT, "reads texts in windows"),
        (
            exported_model.KEEP,
            "keeps another part of a longer text than its first tokens",
        ),
    ):
        if key in model.description:
            raise UsageError(
                "model",
                f"{model.directory} {reads} (preprocessing.{key}: "
                f"{model.description[key]}), which Hugging Face's "
                "BertForSequenceClassification and its tokenizer do not",
                advice="use `target_format=onnx`, or train a model without "
                f"`preprocessing.{key}`",
                name="E-export-unsupported",
            )


def find_truncation_difference(model: PushedModel) -> str:
    """Returns when Hugging Face's tokenizer cuts a pair differently; empty if never.

    Both cut the longest text first. If both texts are cut to an odd number of tokens
    in all, ours gives the odd one to the first text, Hugging Face's to the longer one,
    and of two of the same length to the second. It has no setting for this.
    """
    budget = pair_budget(model)
    if len(model.text_columns) == 1 or budget % 2 == 0:
        return ""
    half = budget // 2
    return (
        f"if both texts have more than {half} tokens and the second is at least as "
        f"long as the first, it keeps {half} of the first and {half + 1} of the "
        f"second, and the served model {half + 1} and {half}"
    )


def pair_budget(model: PushedModel) -> int:
    """Returns the tokens of a pair that are left for its two texts."""
    return model.packing.max_seq_length - 3  # [CLS], and a [SEP] a text


def write(model: PushedModel, directory: Path) -> None:
    """Writes configuration, tokenizer and weights to an existing directory."""
    _write_config(model, directory)
    _write_tokenizer(model, directory)
    # Transformers refuses a file without this entry. `save_file` would make a file that
    # only its owner can read.
    weights = safetensors.numpy.save(dict(model.tensors), metadata={"format": "pt"})
    files.write(str(directory / HUGGING_FACE_WEIGHTS), weights)


def _write_config(model: PushedModel, directory: Path) -> None:
    """Writes `config.json`.

    The last two keys are our own, which Transformers keeps and does not use.
    """
    config = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        **model.config,
        "pad_token_id": model.special_ids["[PAD]"],
        "problem_type": model.kind.problem_type,
        "id2label": dict(enumerate(model.labels)),
        "label2id": {label: index for index, label in enumerate(model.labels)},
        "text_columns": model.text_columns,
        "max_seq_length": model.packing.max_seq_length,
    }
    files.write_json(str(directory / HUGGING_FACE_CONFIG), config)


def _write_tokenizer(model: PushedModel, directory: Path) -> None:
    """Writes `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`."""
    vocabulary = "".join(f"{word}\n" for word in model.words)
    files.write(str(directory / VOCAB_FILE), vocabulary)
    files.write_json(str(directory / TOKENIZER_FILE), tokenizer_json.describe(model))
    config = {
        # Everything from `tokenizer.json`: `BertTokenizer` of Transformers 5 reads only
        # the vocabulary, and sets `max_input_chars_per_word` to 100.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": list(INPUTS),
        "model_max_length": model.packing.max_seq_length,
        # Special tokens in a text are text.
        "split_special_tokens": True,
        **{
            f"{token.strip('[]').lower()}_token": token
            for token in (*SPECIAL_TOKENS, MASK_TOKEN)
            if token in model.words
        },
        **dataclasses.asdict(model.tokenizer),
    }
    files.write_json(str(directory / TOKENIZER_CONFIG), config)
