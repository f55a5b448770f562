"""Settles where the pre-trained encoder is, before the pipeline starts."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modules import fingerprint
from pipeline.config.errors import UsageError
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs.working_directory import WorkingDirectory

if TYPE_CHECKING:
    from modules.encoder import EncoderDirectory
    from modules.encoder.conversion import ImportedEncoder

PACKAGE_PREFIX = "package:"
_HANDLE_PREFIX = "https://"
_SETTING = "encoder.source"
_CACHE_VARIABLE = "TFHUB_CACHE_DIR"
_NAMES_SHOWN = 12

Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class ResolvedEncoder:
    """An encoder that was found, checked and fits the configuration.

    Attributes:
      directory: Where its files are.
      vocab_file: Its vocabulary.
      fingerprint: Of configuration, vocabulary and weights.
      vocab_fingerprint: Of all that Transform depends on: the vocabulary, whether text
        is put in lower case, and the number of token types.
      architecture: What its weights have their shapes and their meaning by.
    """

    directory: str
    vocab_file: str
    fingerprint: str
    vocab_fingerprint: str
    architecture: dict[str, Any]


def resolve_encoder(
    config: Config,
    paths: OutputPaths | None = None,
    report: Report = lambda _: None,
) -> ResolvedEncoder:
    """Finds and checks the encoder of a configuration.

    Args:
      config: Its `encoder` names the source.
      paths: Where an encoder is written that must be imported first (a SavedModel, a
        folder without a `vocab.txt`). What was imported of the same source before is
        used again. None takes the configuration's own.
      report: Called with what a person would want to know.

    Raises:
      UsageError: The source cannot be read, is not a BERT, has other files than
        `encoder.sha256` says, or is too short for `preprocessing.max_seq_length`.
    """
    from modules import encoder as encoder_lib
    from modules.data import preprocessing
    from modules.encoder import conversion

    source = config.encoder.source
    with _usage_errors(_SETTING, source):
        directory = locate(source, _SETTING)
        _check_files(conversion.source_files(directory), config.encoder.sha256)
        if conversion.needs_import(directory):
            paths = paths or OutputPaths.of(config)
            directory = _import_once(directory, paths, report)
        encoder = encoder_lib.open_encoder(directory)
        _check_vocabulary(encoder.vocab_file)
        encoder_lib.check_tensor_names(encoder)
        files = [encoder.path(name) for name in encoder.fingerprinted_files]
        vocabulary = {
            "words": fingerprint.of_files([encoder.vocab_file]),
            "is_cased": preprocessing.is_cased(encoder.vocab_file),
            "types": encoder.config["type_vocab_size"],
        }
        resolved = ResolvedEncoder(
            directory=directory,
            vocab_file=encoder.vocab_file,
            fingerprint=fingerprint.of_files(files),
            vocab_fingerprint=fingerprint.of_json(vocabulary),
            architecture=encoder_lib.describe_architecture(encoder),
        )
    _check_length(config.preprocessing.max_seq_length, encoder)
    return resolved


def import_encoder(
    source: str,
    destination: str | Path,
    preprocessor: str | None = None,
    report: Report = lambda _: None,
) -> ImportedEncoder:
    """Writes any encoder as a Model Garden checkpoint.

    Args:
      source: What `encoder.source` may be.
      destination: A local directory that does not exist yet; it appears when it is
        whole.
      preprocessor: The preprocessor of a TF Hub or Kaggle encoder, for its vocabulary:
        a handle or a directory.
      report: Called with a line for the user.

    Raises:
      UsageError: The source cannot be read or is not a BERT, or the destination exists.
    """
    from modules.encoder import conversion

    target = Path(destination)
    if "://" in str(destination):
        raise UsageError(f"{destination} is remote; name a local directory")
    if target.exists():
        raise UsageError(f"{destination} exists; name a new directory")
    working = WorkingDirectory(target.with_name(f".{target.name}.incomplete"))
    try:
        with _usage_errors("SOURCE", source):
            directory = locate(source, "SOURCE")
            if preprocessor is not None:
                preprocessor = locate(preprocessor, "--preprocessor")
            working.open(wait=report)
            if target.exists():
                raise UsageError(f"{destination} exists; name a new directory")
            imported = conversion.convert(directory, str(working.path), preprocessor)
        working.publish(target)
    finally:
        working.delete()
    encoder = dataclasses.replace(imported.encoder, directory=str(target))
    return dataclasses.replace(imported, encoder=encoder)


def describe(imported: ImportedEncoder) -> list[str]:
    """Returns what a person would want to know of an import, a line each."""
    from modules.data import preprocessing

    encoder, config = imported.encoder, imported.encoder.config
    case = "cased" if preprocessing.is_cased(encoder.vocab_file) else "uncased"
    lines = [
        f"{config['num_hidden_layers']} layers x {config['hidden_size']}, "
        f"{config['num_attention_heads']} heads, {imported.parameters:,} parameters, "
        f"{config['vocab_size']:,} tokens ({case})"
    ]
    if imported.left_out:
        names, more = imported.left_out[:_NAMES_SHOWN], imported.left_out[_NAMES_SHOWN:]
        rest = f" and {len(more)} more" if more else ""
        lines.append(f"left out, no part of the encoder: {', '.join(names)}{rest}")
    return [*lines, f"written to {encoder.directory}"]


def locate(source: str, setting: str) -> str:
    """Returns the directory that a source names; a handle is downloaded once.

    Args:
      source: A directory (local or remote), `package:NAME/PATH`, or the handle of a
        SavedModel on TF Hub or Kaggle.
      setting: What it was given with, for the message.

    Raises:
      UsageError: There is no such package or directory, no way to the handle, or it is
        of plain HTTP.
    """
    if source.startswith(PACKAGE_PREFIX):
        package, _, path = source.removeprefix(PACKAGE_PREFIX).partition("/")
        # Found, not imported: all we want of the package is its files.
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(
                f"{setting} {source}: the package {package} is not installed; "
                "run `make install`, or give a directory with --encoder DIR"
            )
        return str(Path(spec.submodule_search_locations[0]) / path)
    if source.startswith("http://"):
        raise UsageError(
            f"{setting} {source} would be downloaded without encryption, and anyone on "
            "the way could replace it; write https://, or give a local copy"
        )
    if source.startswith(_HANDLE_PREFIX):
        return _download(source, setting)
    if "://" not in source and not Path(source).is_dir():
        raise UsageError(f"{setting} {source} is not a directory")
    return source


def _import_once(source: str, paths: OutputPaths, report: Report) -> str:
    """Returns where a source was imported to, now or by an earlier run."""
    from modules.encoder import conversion

    key = fingerprint.of_text(
        fingerprint.of_files(conversion.source_files(source)),
        fingerprint.of_code(conversion.__name__),
    )
    destination = paths.encoder(key[:16])
    if not destination.exists():
        report(f"importing the encoder {source} to {destination}")
        try:
            import_encoder(source, destination, report=report)
        except UsageError:
            # Another process may have imported it meanwhile.
            if not destination.exists():
                raise
    return str(destination)


def _download(handle: str, setting: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # its use of pkg_resources
        import tensorflow_hub as hub

    try:
        _use_own_cache()
        return hub.resolve(handle)
    except Exception as error:  # whatever the network's many layers raise
        raise UsageError(
            f"{setting} {handle} cannot be downloaded ({type(error).__name__}: "
            f"{str(error)[:200]}). Without a network, give a local copy of the "
            "SavedModel with --encoder DIR, or import-encoder DIR"
        ) from error


def _use_own_cache() -> None:
    """Has TF Hub download to the user's own directory.

    Its default is /tmp/tfhub_modules, where another user of the machine can put a model
    first.
    """
    if os.environ.get(_CACHE_VARIABLE):
        return
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(base) / "tfhub_modules"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ[_CACHE_VARIABLE] = str(cache)


@contextlib.contextmanager
def _usage_errors(setting: str, source: str) -> Iterator[None]:
    """Turns what is wrong with a source into an error that a user can mend."""
    import tensorflow as tf

    from modules import encoder as encoder_lib

    try:
        yield
    except encoder_lib.EncoderError as error:
        raise UsageError(str(error)) from error
    except tf.errors.OpError as error:
        raise UsageError(
            f"{setting} {source} cannot be read: {str(error)[:200]}. Without a network "
            "or credentials for it, give a local copy with --encoder DIR"
        ) from error


def _check_length(length: int, encoder: EncoderDirectory) -> None:
    if length > encoder.max_seq_length:
        raise UsageError(
            f"preprocessing.max_seq_length is {length}; the encoder "
            f"{encoder.directory} allows 8 to {encoder.max_seq_length}"
        )


def _check_vocabulary(path: str) -> None:
    from modules.data import preprocessing

    try:
        preprocessing.special_token_ids(path)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _check_files(paths: list[str], expected: str | None) -> None:
    if expected is None:
        return
    actual = fingerprint.of_files(paths)
    if actual != expected:
        raise UsageError(
            f"{', '.join(paths)} has SHA-256 {actual}, encoder.sha256 is {expected}: "
            "these are other files than the recipe's; install them again, or set "
            f"encoder.sha256 to {actual} if they are what you want"
        )
