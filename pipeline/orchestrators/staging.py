"""Brings what a run reads from this machine to where a cluster can read it."""

from __future__ import annotations

import dataclasses
import os
import uuid
from collections.abc import Callable

from modules import fingerprint
from pipeline.config.errors import UsageError
from pipeline.config.paths import ClusterPaths
from pipeline.inputs import examples as examples_lib
from pipeline.inputs.encoder_source import ResolvedEncoder
from pipeline.inputs.examples import ExamplesDirectory
from pipeline.inputs.resolve import ResolvedInputs

_KEY_LENGTH = 16
# The layout that `prepare-data` writes: so another of its directories fits in.
_PATTERN = "*.tf*record*"


@dataclasses.dataclass(frozen=True)
class StagedInputs:
    """What a cluster reads, and what of it must be brought there.

    Attributes:
      inputs: The sources, each at a place that the cluster reaches.
      copies: Source and destination of each file that is on this machine.
    """

    inputs: ResolvedInputs
    copies: list[tuple[str, str]]


def plan(inputs: ResolvedInputs, paths: ClusterPaths) -> StagedInputs:
    """Says where everything goes; nothing is copied.

    Places follow from contents, so that a component's cache holds as long as what it
    reads is the same. What is remote already stays where it is.

    Args:
      inputs: What a configuration's sources turned out to be.
      paths: Of the cluster.
    """
    examples, copies = _plan_examples(inputs.examples, paths)
    encoder, encoder_copies = _plan_encoder(inputs.encoder, paths)
    schema = str(inputs.schema_file)
    key = fingerprint.of_file(schema)[:_KEY_LENGTH]
    schema_file = f"{paths.staged('schema', key)}/{os.path.basename(schema)}"
    return StagedInputs(
        ResolvedInputs(examples, schema_file, encoder),
        [*copies, *encoder_copies, (schema, schema_file)],
    )


def copy(staged: StagedInputs, report: Callable[[str], None] = lambda _: None) -> None:
    """Copies what is not there yet; an interrupted copy is completed by the next call.

    Args:
      staged: The plan.
      report: Called with what a person would want to know.

    Raises:
      UsageError: The destination cannot be written.
    """
    import tensorflow as tf

    for source, destination in staged.copies:
        try:
            if tf.io.gfile.exists(destination):
                continue
            report(f"copying {source} to {destination}")
            _copy_file(source, destination)
        except tf.errors.OpError as error:
            raise UsageError(
                f"{destination} cannot be written: {str(error)[:200]}. Check the "
                "pipeline root and your credentials for it"
            ) from error


def _copy_file(source: str, destination: str) -> None:
    """Copies a file, which appears complete; others may copy it at the same time."""
    import tensorflow as tf

    directory = os.path.dirname(destination)
    tf.io.gfile.makedirs(directory)
    # Its name does not match the pattern of Examples, should it be left behind.
    incomplete = f"{directory}/.incomplete-{uuid.uuid4().hex}"
    try:
        tf.io.gfile.copy(source, incomplete)
        tf.io.gfile.rename(incomplete, destination, overwrite=True)
    finally:
        if tf.io.gfile.exists(incomplete):
            tf.io.gfile.remove(incomplete)


def _plan_examples(
    examples: ExamplesDirectory, paths: ClusterPaths
) -> tuple[ExamplesDirectory, list[tuple[str, str]]]:
    if "://" in examples.directory:
        # The run's parameter `data` may name another directory than a span's.
        return dataclasses.replace(examples, span=None), []
    files = {
        split: examples_lib.list_examples(examples, split)
        for split in examples.patterns
    }
    contents = [f"{split} {fingerprint.of_files(files[split])}" for split in files]
    key = fingerprint.of_text(*contents)[:_KEY_LENGTH]
    kind = f"examples/span-{examples.span.number}" if examples.span else "examples"
    destination = paths.staged(kind, key)
    copies = [
        (path, f"{destination}/{split}/{os.path.basename(path)}")
        for split in files
        for path in files[split]
    ]
    patterns = {split: f"{split}/{_PATTERN}" for split in files}
    return ExamplesDirectory(destination, patterns), copies


def _plan_encoder(
    encoder: ResolvedEncoder, paths: ClusterPaths
) -> tuple[ResolvedEncoder, list[tuple[str, str]]]:
    if "://" in encoder.directory:
        return encoder, []
    from modules import encoder as encoder_lib

    opened = encoder_lib.open_encoder(encoder.directory)
    destination = paths.staged("encoder", encoder.fingerprint[:_KEY_LENGTH])
    moved = dataclasses.replace(opened, directory=destination)
    copies = [(opened.path(name), moved.path(name)) for name in opened.files]
    return (
        dataclasses.replace(
            encoder, directory=destination, vocab_file=moved.vocab_file
        ),
        copies,
    )
