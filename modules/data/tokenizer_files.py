"""What the files of an encoder say about its tokenizer: its words and its settings."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from contracts.tokenization import LOWER_CASE_KEY, TokenizerSettings
from modules.encoder_files import (
    ADDED_TOKENS_FILE,
    MASK_TOKEN,
    SPECIAL_TOKENS,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_CONFIG,
    TOKENIZER_FILE,
    TYPES_KEY,
    damaged,
    find_config,
    read_json,
    unsupported,
)

_SUBWORD_PREFIX = "##"
_LONGEST = "max_input_chars_per_word"
_FAST = "Fast"  # the end of a class's name, for a tokenizer in Rust
# Classes of Transformers that split text as BERT does. The last two take everything
# from `tokenizer.json`.
_CLASSES = (
    *("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
    *("PreTrainedTokenizer", "TokenizersBackend"),
)
# The supported values of keys in Transformers' files.
_SUPPORTED = {
    "do_basic_tokenize": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
    "wordpieces_prefix": _SUBWORD_PREFIX,
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": MASK_TOKEN,
}
# BERT's example: what precedes, separates and follows texts A and B, and their types.
SINGLE = [("[CLS]", 0), ("A", 0), ("[SEP]", 0)]
PAIR = [*SINGLE, ("B", 1), ("[SEP]", 1)]


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """What the files of a tokenizer say.

    Attributes:
      words: The tokens in the order of their ids.
      settings: How text is split into words.
    """

    words: list[str]
    settings: TokenizerSettings


def list_files(directory: str) -> tuple[str, ...]:
    """Returns the names of an encoder's files that are about its tokenizer alone."""
    names = (TOKENIZER_CONFIG, TOKENIZER_FILE, SPECIAL_TOKENS_FILE, ADDED_TOKENS_FILE)
    return tuple(
        name for name in names if tf.io.gfile.exists(os.path.join(directory, name))
    )


def read_words(path: str) -> list[str]:
    """Reads a vocabulary.

    In a `vocab.txt`, a byte order mark, white space at the end of a line (as the
    carriage return of Windows) and empty lines at the end are not part of the tokens.

    Args:
      path: A `vocab.txt`, which has one token a line, or a `tokenizer.json`.

    Returns:
      The tokens in the order of their ids.

    Raises:
      EncoderError: The file is not UTF-8, or an id has no token or several.
    """
    if os.path.basename(path) != TOKENIZER_FILE:
        with tf.io.gfile.GFile(path, "rb") as file:
            try:
                text = file.read().decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise damaged(
                    path, f"not UTF-8: {error}", advice="save it as UTF-8"
                ) from error
        # Not `splitlines`: a token may be a line separator of Unicode.
        return [line.rstrip(" \t\r") for line in text.rstrip(" \t\r\n").split("\n")]
    return _list_words(path, read_json(path))


def _list_words(path: str, tokenizer: dict[str, Any]) -> list[str]:
    """Returns the tokens in a `tokenizer.json` in the order of their ids."""
    with _refusing_other_forms(path):
        added = tokenizer.get("added_tokens") or ()
        ids = {**tokenizer["model"]["vocab"], **{a["content"]: a["id"] for a in added}}
    tokens: dict[int, str] = {}
    for token, index in ids.items():
        if tokens.setdefault(index, token) != token:
            raise damaged(path, f"{tokens[index]!r} and {token!r} have the id {index}")
    gaps = [index for index in range(max(tokens, default=0)) if index not in tokens]
    if gaps:
        raise damaged(path, f"{len(gaps)} ids without a token, such as {gaps[0]}")
    return [tokens[index] for index in range(len(tokens))]


def read_tokenizer(vocab_file: str) -> Tokenizer:
    """Reads and checks an encoder's tokenizer, each of its files once.

    Args:
      vocab_file: A `vocab.txt` or `tokenizer.json` in the encoder's directory.

    Raises:
      EncoderError: As `read_words`; or a setting means that text is not split as BERT's
        tokenizer does, is not of its type, or contradicts another file.
    """
    directory = os.path.dirname(vocab_file)
    config = find_config(directory)
    names = (*list_files(directory), *([config] if config else ()))
    contents = {name: read_json(os.path.join(directory, name)) for name in names}
    settings = _find_settings(directory, config, contents)
    path, words = os.path.join(directory, TOKENIZER_FILE), []
    if TOKENIZER_FILE in contents:
        words = _list_words(path, contents[TOKENIZER_FILE])
    if os.path.basename(vocab_file) != TOKENIZER_FILE:
        listed, words = words, read_words(vocab_file)
        if TOKENIZER_FILE in contents and words != listed:
            raise damaged(
                path,
                f"its tokens differ from {vocab_file}",
                advice="delete the file that the encoder was not trained with",
            )
    return Tokenizer(words, TokenizerSettings.of(settings, words))


# Transform, DataGate and the exported graph know only the path of the vocabulary.
load_tokenizer = functools.lru_cache(maxsize=4)(read_tokenizer)


def _find_settings(
    directory: str, config: str | None, contents: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Returns the settings of a tokenizer in all files of an encoder.

    The files of the tokenizer come before the encoder's configuration.

    Returns:
      Values of `TokenizerSettings`; those that no file has are missing.
    """
    has_one_type = config is not None and contents[config].get(TYPES_KEY) == 1
    found: dict[str, tuple[Any, str]] = {}  # the value and its file
    for name, content in contents.items():
        path = os.path.join(directory, name)
        if name == ADDED_TOKENS_FILE:
            _check_added(path, "it", content)
            continue
        settings = content
        with _refusing_other_forms(path):
            if name == TOKENIZER_FILE:
                settings = _read_tokenizer(path, content, has_one_type)
            else:
                _check_keys(path, content)
        for field in dataclasses.fields(TokenizerSettings):
            value = settings.get(field.name)
            if value is None:
                continue
            is_length = field.name == _LONGEST
            expected, allowed = (
                (int, "a whole number above 0")
                if is_length
                else (bool, "true or false")
            )
            if type(value) is not expected or (is_length and value < 1):
                raise damaged(path, f"{field.name} {value!r}", allowed=allowed)
            earlier, origin = found.setdefault(field.name, (value, path))
            if name == TOKENIZER_FILE and earlier != value:
                raise damaged(
                    path,
                    f"{field.name} {value!r}; {origin} has {earlier!r}",
                    advice="write what the encoder was trained with in both",
                )
    return {key: value for key, (value, _) in found.items()}


@contextlib.contextmanager
def _refusing_other_forms(path: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        raise damaged(
            path,
            f"not a file of Hugging Face's tokenizers ({type(error).__name__}: "
            f"{error})",
        ) from error


def _check_keys(path: str, config: dict[str, Any]) -> None:
    """Refuses a configuration of Transformers that changes how text is split."""
    name = str(config.get("tokenizer_class") or _CLASSES[0])
    if name.removesuffix(_FAST) not in _CLASSES:
        raise unsupported(
            path,
            f"tokenizer_class {name!r}",
            allowed=f"{', '.join(_CLASSES)}, or one of them and {_FAST}, which split "
            "text as BERT does",
        )
    if "AutoTokenizer" in (config.get("auto_map") or {}):
        raise unsupported(
            path,
            f"auto_map has an AutoTokenizer with its own code, {config['auto_map']!r}",
        )
    for key, supported in _SUPPORTED.items():
        value = config.get(key)
        if isinstance(value, dict):  # a token with its attributes
            value = value.get("content")
        if value is not None and value != supported:
            raise unsupported(path, f"{key} {value!r}", allowed=f"{supported!r}")
    for key in ("bos_token", "eos_token"):
        _check_added(path, key, filter(None, [config.get(key)]))
    for key in (
        *("never_split", "additional_special_tokens", "extra_special_tokens"),
        "added_tokens_decoder",
    ):
        tokens = config.get(key) or ()
        values = tokens.values() if isinstance(tokens, dict) else tokens
        _check_added(path, key, values)


def _check_added(path: str, key: str, tokens: Iterable[Any]) -> None:
    """Refuses tokens that are looked for in a text before it is split into words."""
    contents = [t["content"] if isinstance(t, dict) else t for t in tokens]
    known = (*SPECIAL_TOKENS, MASK_TOKEN)
    others = [token for token in contents if token not in known]
    if others:
        raise unsupported(
            path,
            f"{key} has {others[0]!r}, which is found in a text before it is split "
            "into words",
            allowed=", ".join(known),
        )


def _read_tokenizer(
    path: str, tokenizer: dict[str, Any], has_one_type: bool
) -> dict[str, Any]:
    """Returns the settings in a `tokenizer.json`.

    Raises:
      EncoderError: A part of the tokenizer is not BERT's.
    """
    parts = {
        name: tokenizer.get(name) or {}
        for name in ("model", "normalizer", "pre_tokenizer", "post_processor")
    }
    for name, supported in (
        ("model", ("WordPiece",)),
        ("normalizer", ("BertNormalizer",)),
        ("pre_tokenizer", ("BertPreTokenizer",)),
        ("post_processor", ("BertProcessing", "TemplateProcessing")),
    ):
        kind = parts[name].get("type")
        if name == "model" and kind is None and _LONGEST in parts[name]:
            continue  # old versions of `tokenizers` wrote none: bert-base-uncased
        if kind not in supported:
            raise unsupported(path, f"{name} {kind}", allowed=" or ".join(supported))
    model, processor = parts["model"], parts["post_processor"]
    prefix = model.get("continuing_subword_prefix", _SUBWORD_PREFIX)
    if prefix != _SUBWORD_PREFIX:
        raise unsupported(
            path,
            f"continuing_subword_prefix {prefix!r}",
            allowed=f"{_SUBWORD_PREFIX!r}",
        )
    _check_keys(path, {"unk_token": model.get("unk_token")})
    _check_added(path, "added_tokens", tokenizer.get("added_tokens") or ())
    if processor["type"] == "BertProcessing":
        around = [processor["cls"][0], processor["sep"][0]]
        is_berts = around == ["[CLS]", "[SEP]"]
    else:
        single, pair = (
            [
                (piece["id"], piece["type_id"])
                for pieces in processor[form]
                for piece in pieces.values()
            ]
            for form in ("single", "pair")
        )
        expected = [(t, 0) for t, _ in PAIR] if has_one_type else PAIR
        is_berts = (single, pair) == (SINGLE, expected)
    if not is_berts:
        raise unsupported(
            path,
            "another post_processor",
            allowed="one that packs [CLS] A [SEP] and [CLS] A [SEP] B [SEP], as BERT "
            "does",
        )
    normalizer = parts["normalizer"]
    if normalizer.get("clean_text") is False:
        # The op of tensorflow-text crashes on U+0011 in a text that was not cleaned.
        raise unsupported(path, "clean_text False of the normalizer", allowed="True")
    return {
        LOWER_CASE_KEY: normalizer.get("lowercase"),
        "strip_accents": normalizer.get("strip_accents"),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars"),
        _LONGEST: model.get(_LONGEST),
    }
