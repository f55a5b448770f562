"""Resolves the source of the pre-trained encoder before the pipeline starts."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts import fingerprint, wording, written_files
from contracts.errors import SettingError, UsageError
from contracts.packing import MIN_SEQ_LENGTH
from contracts.storage import files, uris
from ingest.remote import remote_errors
from ingest.working_directory import (
    DestinationExistsError,
    WorkingDirectory,
    delete_damaged,
    refuse_existing,
)
from modules.encoder_files import EncoderError
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import PACKAGE_PREFIX, Config

# `modules.encoder` imports TensorFlow, so it is imported in functions: every command
# imports this file.
if TYPE_CHECKING:
    from modules.encoder.conversion import ImportedEncoder

_HANDLE_PREFIX = "https://"
_NAMES_SHOWN = 12

Report = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class ResolvedEncoder:
    """A checked encoder that fits the configuration.

    Attributes:
      directory: Its files.
      vocab_file: Its vocabulary.
      fingerprint: Hash of its configuration, vocabulary and weights.
      vocab_fingerprint: Hash of what Transform depends on: the vocabulary, the
        tokenizer's settings, and the number of token types.
      architecture: The settings that decide the shapes and the meaning of its weights.
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
      config: Names the source in `encoder`.
      paths: Where an encoder that needs an import (a SavedModel, a folder without a
        `vocab.txt`) is written. An earlier import of the same source is reused. None
        derives the paths from the configuration.
      report: Called with a line for the user.

    Raises:
      UsageError: The source cannot be read, is not a BERT, does not match
        `encoder.sha256`, has changed since `import-encoder` wrote it, or is too short
        for `preprocessing.max_seq_length`.
    """
    from modules.encoder import conversion
    from modules.encoder.directory import describe_architecture, open_encoder
    from modules.encoder.restoring import check_tensor_names

    source, expected = config.encoder.source, config.encoder.sha256
    with _usage_errors(source):
        directory = locate(source, "encoder.source")
        files = conversion.source_files(directory)
        if expected is not None and (actual := fingerprint.of_files(files)) != expected:
            raise UsageError(
                "encoder.sha256",
                f"{expected}, but {', '.join(files)} has {actual}",
                advice="install the recipe's files again, or set "
                f"`encoder.sha256={actual}` to use these",
                name="E-encoder-changed",
            )
        if uris.is_local(directory):
            changes = written_files.find_changes(
                Path(directory), counts_additional=False
            )
            if changes:
                record = Path(directory, written_files.RECORD)
                raise UsageError(
                    directory,
                    f"{', '.join(changes)} changed after import-encoder wrote the "
                    "directory",
                    advice=f"import the encoder again, or delete {record} to use the "
                    "files as they are",
                    name="E-encoder-changed",
                )
        if conversion.needs_import(directory):
            paths = paths or OutputPaths.of(config)
            directory = _import_once(directory, paths, report)
        encoder = open_encoder(directory)
        check_tensor_names(encoder)
        vocabulary = {
            "words": fingerprint.of_files([encoder.vocab_file]),
            "tokenizer": dataclasses.asdict(encoder.tokenizer.settings),
            "types": encoder.config["type_vocab_size"],
        }
        resolved = ResolvedEncoder(
            directory=encoder.directory,
            vocab_file=encoder.vocab_file,
            fingerprint=fingerprint.of_files(
                [encoder.path(name) for name in encoder.fingerprinted_files]
            ),
            vocab_fingerprint=fingerprint.of_json(vocabulary),
            architecture=describe_architecture(encoder),
        )
    settings = config.preprocessing
    key, length = "max_seq_length", settings.max_seq_length
    if settings.long_text is not None:
        key, length = "long_text.window", settings.long_text.window
    if length > encoder.max_seq_length:
        has_windows = settings.long_text is None and config.task.has_single_text
        raise SettingError(
            f"preprocessing.{key}",
            str(length),
            f"{MIN_SEQ_LENGTH} to {encoder.max_seq_length} with the encoder "
            f"{directory}",
            "preprocessing.long_text reads longer texts in windows"
            if has_windows
            else None,
        )
    return resolved


def import_encoder(
    source: str,
    destination: str | Path,
    preprocessor: str | None = None,
    report: Report = lambda _: None,
) -> ImportedEncoder:
    """Writes any encoder as a Model Garden checkpoint.

    Args:
      source: As `encoder.source`.
      destination: A new local directory. It appears when it is complete.
      preprocessor: The preprocessor of a TF Hub or Kaggle encoder, which has its
        vocabulary: a handle or a directory.
      report: Called with a line for the user.

    Raises:
      UsageError: The source cannot be read or is not a BERT, or the destination exists.
    """
    target = Path(destination)
    if not uris.is_local(str(destination)):
        raise UsageError(
            "destination",
            f"{destination} is remote",
            advice="name a local directory",
            name="E-local-path-required",
        )
    refuse_existing(target)
    with _usage_errors(source):
        directory = locate(source, "source")
        if preprocessor is not None:
            preprocessor = locate(preprocessor, "preprocessor")
        return _convert(directory, target, preprocessor, report)


def _convert(
    directory: str, target: Path, preprocessor: str | None, report: Report
) -> ImportedEncoder:
    from modules.encoder import conversion

    with WorkingDirectory.creating(target, report) as working:
        imported = conversion.convert(directory, str(working.path), preprocessor)
        written_files.record(working.path, with_contents=True)
        working.publish(target)
    encoder = dataclasses.replace(imported.encoder, directory=str(target))
    return dataclasses.replace(imported, encoder=encoder)


def describe(imported: ImportedEncoder) -> list[str]:
    """Returns lines for the user about an imported encoder."""
    encoder, config = imported.encoder, imported.encoder.config
    tokens, table = len(encoder.tokenizer.words), config["vocab_size"]
    padding = f" in a table of {table:,}" if table > tokens else ""
    settings = encoder.tokenizer.settings
    case = "uncased" if settings.do_lower_case else "cased"
    if settings.strip_accents is not settings.do_lower_case:
        case += ", accents stripped" if settings.strip_accents else ", accents kept"
    lines = [
        f"{wording.count(config['num_hidden_layers'], 'layer')} x "
        f"{config['hidden_size']}, "
        f"{wording.count(config['num_attention_heads'], 'head')}, "
        f"{imported.parameters:,} parameters, "
        f"{tokens:,} tokens{padding} ({case})"
    ]
    if imported.left_out:
        names, more = imported.left_out[:_NAMES_SHOWN], imported.left_out[_NAMES_SHOWN:]
        rest = f" and {len(more)} more" if more else ""
        lines.append(f"left out, no part of the encoder: {', '.join(names)}{rest}")
    return [*lines, f"written to {encoder.directory}"]


def locate(source: str, setting: str) -> str:
    """Returns the directory of a source; a handle is downloaded once.

    Args:
      source: A directory (local or remote), `package:NAME/PATH`, or the handle of a
        SavedModel on TF Hub or Kaggle.
      setting: The setting or argument that names it, for errors.

    Raises:
      UsageError: There is no such package or directory, it has a file that is a pipe or
        a device, or the handle cannot be downloaded over HTTPS.
    """
    if source.startswith(PACKAGE_PREFIX):
        package, _, path = source.removeprefix(PACKAGE_PREFIX).partition("/")
        spec = importlib.util.find_spec(package)  # without importing it
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(
                setting,
                f"{source}: the package {package} is not installed",
                advice="run `make install`, or give a directory",
                name="E-encoder-not-found",
            )
        return str(Path(spec.submodule_search_locations[0]) / path)
    if source.startswith("http://"):
        raise SettingError(
            setting,
            f"{source} would be downloaded without encryption, so that others could "
            "replace it",
            advice="write https://, or give a local copy",
        )
    if source.startswith(_HANDLE_PREFIX):
        return _download(source, setting)
    if uris.is_local(source) and not Path(source).is_dir():
        raise UsageError(setting, source, "a directory", name="E-encoder-not-found")
    if uris.is_local(source):
        # A pipe would block its reader, and a device may have no end. Links to files
        # are followed: the folders in Hugging Face's cache consist of links.
        for file in (*Path(source).glob("*"), *Path(source).glob("*/*")):
            if file.exists() and not (file.is_file() or file.is_dir()):
                raise UsageError(
                    str(file),
                    "a pipe, socket or device, not a file",
                    advice="copy the encoder's files again",
                    name="E-encoder-file-damaged",
                )
    files.check_remote(source)
    return source


def _import_once(source: str, paths: OutputPaths, report: Report) -> str:
    """Returns the directory of an imported source; imports it unless it exists."""
    from modules.encoder import conversion

    key = fingerprint.of_text(
        fingerprint.of_files(conversion.source_files(source)),
        fingerprint.of_code(conversion.__name__),
    )
    destination = paths.encoder(key)
    delete_damaged(destination, report)
    if not destination.exists():
        report(f"importing the encoder {source} to {destination}")
        # Another process may import it meanwhile.
        with contextlib.suppress(DestinationExistsError):
            _convert(source, destination, None, report)
    return str(destination)


def _download(handle: str, setting: str) -> str:
    with warnings.catch_warnings():
        # tensorflow_hub uses pkg_resources, which warns that it is deprecated.
        warnings.simplefilter("ignore", UserWarning)
        import tensorflow_hub as hub

    try:
        # In TF Hub's default, /tmp/tfhub_modules, any user of the machine can place a
        # model.
        if not os.environ.get("TFHUB_CACHE_DIR"):
            base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            cache = Path(base) / "tfhub_modules"
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.environ["TFHUB_CACHE_DIR"] = str(cache)
        return hub.resolve(handle)
    except Exception as error:  # download libraries raise errors of many types
        raise UsageError(
            setting,
            f"{handle} cannot be downloaded ({type(error).__name__}: "
            f"{str(error)[:200]})",
            advice="without a network, give a local copy of the SavedModel",
            name="E-network-failed",
        ) from error


@contextlib.contextmanager
def _usage_errors(source: str) -> Iterator[None]:
    try:
        with remote_errors.usage_errors(source, "`encoder.source=DIR`"):
            yield
    except EncoderError as error:
        # The directory of a handle is a hash in the cache.
        if source.startswith(_HANDLE_PREFIX):
            error.got = f"{error.got} (the encoder is {source})"
        raise
