"""Settles where the pre-trained encoder is, before the pipeline starts."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from pathlib import Path

from pipeline import fingerprint
from pipeline.config import Config
from pipeline.errors import UsageError

PACKAGE_PREFIX = "package:"


@dataclasses.dataclass(frozen=True)
class ResolvedEncoder:
    """An encoder that was found, checked and fits the configuration.

    Attributes:
      directory: Where its files are.
      vocab_file: Its vocabulary.
      fingerprint: Of configuration, vocabulary and weights.
      vocab_fingerprint: Of the vocabulary alone, all that Transform depends on.
    """

    directory: str
    vocab_file: str
    fingerprint: str
    vocab_fingerprint: str


def resolve_encoder(config: Config) -> ResolvedEncoder:
    """Finds and checks the encoder of a configuration.

    Args:
      config: Its `encoder` names the source.

    Raises:
      UsageError: The source cannot be read, is not a BERT, has other weights than
        `encoder.sha256` says, or is too short for `preprocessing.max_seq_length`.
    """
    import tensorflow as tf

    from modules import encoder as encoder_lib

    directory = _directory(config.encoder.source)
    try:
        encoder = encoder_lib.open_encoder(directory)
        encoder_lib.check_tensor_names(encoder)
    except encoder_lib.EncoderError as error:
        raise UsageError(str(error)) from error
    except tf.errors.OpError as error:
        raise UsageError(
            f"encoder.source {config.encoder.source} cannot be read: "
            f"{str(error)[:200]}. Without a network or credentials for it, give a "
            "local copy with --encoder DIR"
        ) from error
    length = config.preprocessing.max_seq_length
    if length > encoder.max_seq_length:
        raise UsageError(
            f"preprocessing.max_seq_length is {length}; the encoder {directory} allows "
            f"8 to {encoder.max_seq_length}"
        )
    _check_weights(encoder.weights_file, config.encoder.sha256)
    files = [encoder.path(name) for name in encoder.fingerprinted_files]
    return ResolvedEncoder(
        directory=directory,
        vocab_file=encoder.vocab_file,
        fingerprint=fingerprint.of_files(files),
        vocab_fingerprint=fingerprint.of_files([encoder.vocab_file]),
    )


def _directory(source: str) -> str:
    if source.startswith(PACKAGE_PREFIX):
        package, _, path = source.removeprefix(PACKAGE_PREFIX).partition("/")
        # Found, not imported: all we want of the package is its files.
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(
                f"encoder.source {source}: the package {package} is not installed; "
                "run `make install`, or give a directory with --encoder DIR"
            )
        return str(Path(spec.submodule_search_locations[0]) / path)
    if "://" not in source and not Path(source).is_dir():
        raise UsageError(f"encoder.source {source} is not a directory")
    return source


def _check_weights(path: str, expected: str | None) -> None:
    if expected is None:
        return
    found = fingerprint.of_file(path)
    if found != expected:
        raise UsageError(
            f"{path} has SHA-256 {found}, encoder.sha256 is {expected}: these are "
            "other weights than the recipe's; install them again, or change the "
            f"setting if {os.path.basename(path)} is what you want"
        )
