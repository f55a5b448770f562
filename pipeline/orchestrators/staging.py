"""Copies a run's inputs from this machine to where the orchestrator can read them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from modules import fingerprint, uris
from modules.data.source_rows import LOCATIONS_FILE
from pipeline.config.errors import UsageError
from pipeline.config.paths import OrchestratorPaths
from pipeline.inputs import examples as examples_lib
from pipeline.inputs.encoder_source import ResolvedEncoder
from pipeline.inputs.examples import ExamplesDirectory
from pipeline.inputs.resolve import ResolvedInputs

KEY_LENGTH = 16
# The layout that `prepare-data` writes, so that the run's parameter `data` can name
# another such directory.
_PATTERN = "*.tf*record*"
# Source and destination of each file.
_Copies = list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class StagedInputs:
    """The inputs of a compiled job.

    Attributes:
      inputs: The sources, at locations that the orchestrator can read.
      copies: Source and destination of each file to copy from this machine.
      beam_file: Where Beam's arguments are written; a former job's are replaced.
      beam_arguments: The arguments.
      component_files: Content of each component's file by its path.
    """

    inputs: ResolvedInputs
    copies: _Copies
    beam_file: str | None = None
    beam_arguments: tuple[str, ...] = ()
    component_files: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def plan(inputs: ResolvedInputs, paths: OrchestratorPaths) -> StagedInputs:
    """Chooses a location for each input; nothing is copied.

    Locations are derived from contents, so that a component stays cached while its
    inputs are unchanged. Remote inputs stay where they are.

    Args:
      inputs: The resolved sources.
      paths: Paths below the pipeline root.
    """
    examples, copies = plan_examples(inputs.examples, paths)
    encoder, encoder_copies = _plan_encoder(inputs.encoder, paths)
    schema = str(inputs.schema_file)
    key = fingerprint.of_file(schema)[:KEY_LENGTH]
    schema_file = f"{paths.staged('schema', key)}/{os.path.basename(schema)}"
    return StagedInputs(
        ResolvedInputs(examples, schema_file, encoder, inputs.span),
        [*copies, *encoder_copies, (schema, schema_file)],
    )


def plan_examples(
    examples: ExamplesDirectory, paths: OrchestratorPaths
) -> tuple[ExamplesDirectory, _Copies]:
    """Chooses a location for the examples; see `plan`."""
    if not uris.is_local(examples.directory):
        # The run's parameter `data` may name a directory without this span.
        return dataclasses.replace(examples, span=None), []
    files = {
        split: examples_lib.list_examples(examples, split)
        for split in examples.patterns
    }
    contents = [f"{split} {fingerprint.of_files(files[split])}" for split in files]
    key = fingerprint.of_text(*contents)[:KEY_LENGTH]
    kind = f"examples/span-{examples.span.number}" if examples.span else "examples"
    destination = paths.staged(kind, key)
    copies = [
        (path, f"{destination}/{split}/{os.path.basename(path)}")
        for split in files
        for path in [*files[split], *_find_locations(files[split])]
    ]
    patterns = {split: f"{split}/{_PATTERN}" for split in files}
    return ExamplesDirectory(
        destination, patterns, examples.card.without_paths()
    ), copies


def _find_locations(records: list[str]) -> list[str]:
    """Returns the file that says where a split's records came from, if there is one."""
    path = os.path.join(os.path.dirname(records[0]), LOCATIONS_FILE)
    return [path] if os.path.exists(path) else []


def copy(staged: StagedInputs, report: Callable[[str], None] = lambda _: None) -> None:
    """Writes the files that are missing at their destinations, and Beam's arguments.

    Args:
      staged: The plan.
      report: Called with a message for each copy.

    Raises:
      UsageError: The destination cannot be written.
    """
    import tensorflow as tf

    from modules import files

    for source, destination in staged.copies:
        with _clear_errors(destination):
            if not tf.io.gfile.exists(destination):
                report(f"copying {source} to {destination}")
                files.copy(source, destination)
    for path, content in staged.component_files.items():
        with _clear_errors(path):
            if not tf.io.gfile.exists(path):
                files.write_record(path, content)
    if staged.beam_file is None:
        return
    with _clear_errors(staged.beam_file):
        content = {"arguments": list(staged.beam_arguments)}
        if files.read_record(staged.beam_file) != content:
            report(f"writing Beam's arguments to {staged.beam_file}")
            files.write_record(staged.beam_file, content)


@contextlib.contextmanager
def _clear_errors(destination: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        raise UsageError(
            f"{destination} cannot be written: {str(error)[:200]}. Check the "
            "pipeline root and your credentials for it"
        ) from error


def _plan_encoder(
    encoder: ResolvedEncoder, paths: OrchestratorPaths
) -> tuple[ResolvedEncoder, _Copies]:
    if not uris.is_local(encoder.directory):
        return encoder, []
    from modules import encoder as encoder_lib

    local = encoder_lib.open_encoder(encoder.directory)
    destination = paths.staged("encoder", encoder.fingerprint[:KEY_LENGTH])
    remote = dataclasses.replace(local, directory=destination)
    copies = [(local.path(name), remote.path(name)) for name in local.files]
    staged = dataclasses.replace(
        encoder, directory=destination, vocab_file=remote.vocab_file
    )
    return staged, copies
