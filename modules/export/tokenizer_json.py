"""The tokenizer of a pushed model in the format of Hugging Face's `tokenizers`."""

from __future__ import annotations

from typing import Any

from contracts.packing import DEFAULT_KEEP
from modules.data import tokenizer_files
from modules.encoder_files import TYPES_KEY
from modules.export.pushed_model import PushedModel


def describe(model: PushedModel) -> dict[str, Any]:
    """Returns the content of `tokenizer.json`.

    It cuts longer texts only where the format can express what the model keeps.
    """
    settings, ids = model.tokenizer, model.special_ids
    keeps_head = model.packing.keep == DEFAULT_KEEP and model.packing.long_text is None
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
            "max_length": model.packing.max_seq_length,
            "strategy": "LongestFirst",
            "stride": 0,
        }
        if keeps_head
        else None,
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
