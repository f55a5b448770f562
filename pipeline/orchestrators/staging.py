"""Copies a run's inputs from this machine to where the orchestrator can read them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from contracts import fingerprint
from contracts.errors import UsageError
from contracts.storage import files, uris
from ingest import examples as examples_lib
from ingest.examples import ExamplesDirectory
from ingest.examples.tfrecords import RECORDS
from modules.data.source_rows import LOCATIONS_FILE
from pipeline.config.paths import OrchestratorPaths
from pipeline.entrypoint import BeamFile
from pipeline.inputs.resolve import ResolvedInputs
from pipeline.inputs.resolved_checks import ResolvedChecks
from pipeline.inputs.resolved_redaction import ResolvedRedaction

KEY_LENGTH = 16
# Source and destination of each file.
_Copies = list[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class StagedInputs:
    """The inputs of a compiled job.

    Attributes:
      inputs: The sources, at locations that the orchestrator can read.
      copies: Source and destination of each file to copy from this machine.
      beam_file: Path of the file with Beam's arguments, which every job replaces.
      beam_arguments: Beam's arguments.
      records: Content of each component's file, and of the run's commits, by path.
    """

    inputs: ResolvedInputs
    copies: _Copies
    beam_file: str | None = None
    beam_arguments: tuple[str, ...] = ()
    records: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def plan(inputs: ResolvedInputs, paths: OrchestratorPaths) -> StagedInputs:
    """Chooses a location for each input; nothing is copied.

    Locations are derived from contents, so that a component stays cached while its
    inputs are unchanged. Remote inputs stay where they are.
    """
    examples, copies = plan_examples(inputs.examples, paths)
    encoder = inputs.encoder
    if uris.is_local(encoder.directory):
        # It imports TensorFlow.
        from modules.encoder.directory import open_without_vocabulary

        local = open_without_vocabulary(encoder.directory)
        directory = paths.staged("encoder", encoder.fingerprint[:KEY_LENGTH])
        remote = dataclasses.replace(local, directory=directory)
        copies += [(local.path(name), remote.path(name)) for name in local.files]
        encoder = dataclasses.replace(
            encoder, directory=directory, vocab_file=remote.vocab_file
        )
    schema = str(inputs.schema_file)
    key = fingerprint.of_file(schema)[:KEY_LENGTH]
    schema_file = f"{paths.staged('schema', key)}/{os.path.basename(schema)}"
    checks, copies_of_checks = _plan_checks(inputs.checks, paths)
    location, modules = _plan_modules(inputs.redaction, "redact", paths)
    redaction = dataclasses.replace(inputs.redaction, directory=location)
    return StagedInputs(
        ResolvedInputs(examples, schema_file, encoder, inputs.span, checks, redaction),
        [*copies, (schema, schema_file), *copies_of_checks, *modules],
    )


def _plan_checks(
    checks: ResolvedChecks, paths: OrchestratorPaths
) -> tuple[ResolvedChecks, _Copies]:
    """Chooses locations for labelled rows, and for a user's modules; see `plan`."""
    copies: _Copies = []
    sections = {name: dict(section) for name, section in checks.sections.items()}
    for name, setting in checks.rows:
        source = sections[name][setting]
        key = fingerprint.of_file(source)[:KEY_LENGTH]
        staged = f"{paths.staged('labelled_rows', key)}/{os.path.basename(source)}"
        sections[name][setting] = staged
        copies.append((source, staged))
    directory, modules = _plan_modules(checks, "checks", paths)
    staged_checks = dataclasses.replace(checks, sections=sections, directory=directory)
    return staged_checks, list(dict.fromkeys([*copies, *modules]))


def _plan_modules(
    resolved: ResolvedChecks | ResolvedRedaction, kind: str, paths: OrchestratorPaths
) -> tuple[str | None, _Copies]:
    """Chooses a location for a user's modules; see `plan`."""
    source = resolved.directory
    if source is None:
        return None, []
    sources = {path: os.path.join(source, path) for path in resolved.modules}
    contents = [f"{path} {fingerprint.of_file(sources[path])}" for path in sources]
    directory = paths.staged(kind, fingerprint.of_text(*contents)[:KEY_LENGTH])
    return directory, [(sources[path], f"{directory}/{path}") for path in sources]


def plan_examples(
    examples: ExamplesDirectory, paths: OrchestratorPaths
) -> tuple[ExamplesDirectory, _Copies]:
    """Chooses a location for the examples; see `plan`."""
    if not uris.is_local(examples.directory):
        # The run's parameter `data` may name a directory without this span.
        return dataclasses.replace(examples, span=None), []
    records = {
        split: examples_lib.list_examples(examples, split)
        for split in examples.patterns
    }
    contents = [f"{split} {fingerprint.of_files(records[split])}" for split in records]
    key = fingerprint.of_text(*contents)[:KEY_LENGTH]
    kind = f"examples/span-{examples.span.number}" if examples.span else "examples"
    destination = paths.staged(kind, key)
    copies = [
        (path, f"{destination}/{split}/{os.path.basename(path)}")
        for split in records
        for path in [*records[split], *_find_locations(records[split])]
    ]
    # As `prepare-data` names files, so that the run's parameter `data` can be a
    # directory that it wrote.
    patterns = {split: f"{split}/{RECORDS}" for split in records}
    card = examples.card.without_paths()
    return ExamplesDirectory(destination, patterns, card), copies


def _find_locations(records: list[str]) -> list[str]:
    """Returns the file with the source location of each record, if it exists."""
    path = os.path.join(os.path.dirname(records[0]), LOCATIONS_FILE)
    return [path] if os.path.exists(path) else []


def copy(staged: StagedInputs, report: Callable[[str], None] = lambda _: None) -> None:
    """Writes the files that are missing at their destinations, and Beam's arguments.

    Raises:
      UsageError: The destination cannot be written.
    """
    for _, destination in staged.copies[:1]:  # all are below the pipeline root
        files.check_remote(destination)
    for source, destination in staged.copies:
        with _clear_errors(destination):
            if files.size(destination) is None:
                report(f"copying {source} to {destination}")
                files.copy(source, destination)
    for path, content in staged.records.items():
        with _clear_errors(path):
            if files.size(path) is None:
                files.write_record(path, content)
    if staged.beam_file is None:
        return
    with _clear_errors(staged.beam_file):
        arguments: BeamFile = {"arguments": list(staged.beam_arguments)}
        if files.read_record(staged.beam_file) != arguments:
            report(f"writing Beam's arguments to {staged.beam_file}")
            files.write_record(staged.beam_file, arguments)


@contextlib.contextmanager
def _clear_errors(destination: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise UsageError(
            destination,
            f"cannot be written: {' '.join(str(error).split())[:200]}",
            advice="check the pipeline root and your credentials for it",
            name="E-storage-failed",
        ) from error
