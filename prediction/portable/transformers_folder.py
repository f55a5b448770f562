"""A model as a folder for Hugging Face's Transformers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import safetensors.numpy

from contracts.storage import files
from modules.data import tokenizer_files
from modules.encoder_files import (
    HUGGING_FACE_CONFIG,
    HUGGING_FACE_WEIGHTS,
    MASK_TOKEN,
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG,
    TOKENIZER_FILE,
    TYPES_KEY,
    VOCAB_FILE,
)
from prediction.portable.pushed_model import PushedModel

TOKEN_INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def write(model: PushedModel, directory: Path) -> None:
    """Writes configuration, tokenizer and weights to an existing directory."""
    write_config(model, directory)
    write_tokenizer(model, directory)
    # Transformers refuses a file without this entry. `save_file` would make a file that
    # only its owner can read.
    weights = safetensors.numpy.save(dict(model.tensors), metadata={"format": "pt"})
    files.write(str(directory / HUGGING_FACE_WEIGHTS), weights)


def write_config(model: PushedModel, directory: Path) -> None:
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
        "max_seq_length": model.max_seq_length,
    }
    files.write_json(str(directory / HUGGING_FACE_CONFIG), config)


def write_tokenizer(model: PushedModel, directory: Path) -> None:
    """Writes `vocab.txt`, `tokenizer.json` and `tokenizer_config.json`."""
    vocabulary = "".join(f"{word}\n" for word in model.words)
    files.write(str(directory / VOCAB_FILE), vocabulary)
    files.write_json(str(directory / TOKENIZER_FILE), _tokenizer(model))
    config = {
        # Everything from `tokenizer.json`: `BertTokenizer` of Transformers 5 reads only
        # the vocabulary, and sets `max_input_chars_per_word` to 100.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": list(TOKEN_INPUTS),
        "model_max_length": model.max_seq_length,
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


def _tokenizer(model: PushedModel) -> dict[str, Any]:
    """Returns the tokenizer in the format of Hugging Face's `tokenizers`."""
    settings, ids = model.tokenizer, model.special_ids
    has_one_type = model.config[TYPES_KEY] == 1

    def template(pieces: list[tuple[str, int]]) -> list[dict[str, Any]]:
        return [
            {
                "SpecialToken" if name in ids else "Sequence": {
                    "id": name,
                    "type_id": 0 if has_one_type else kind,
                }
            }
            for name, kind in pieces
        ]

    return {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": model.max_seq_length,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": "BatchLongest",
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": ids["[PAD]"],
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        # None: they would be found in a text before it is split into words.
        "added_tokens": [],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings.tokenize_chinese_chars,
            "strip_accents": settings.strip_accents,
            "lowercase": settings.do_lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template(tokenizer_files.SINGLE),
            "pair": template(tokenizer_files.PAIR),
            "special_tokens": {
                token: {"id": token, "ids": [ids[token]], "tokens": [token]}
                for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": settings.max_input_chars_per_word,
            "vocab": {word: index for index, word in enumerate(model.words)},
        },
    }
