"""Resolves the inputs of a run before its pipeline is built."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from contracts.errors import SettingError, UsageError
from contracts.settings.data import TFDS_PREFIX
from contracts.storage import files, uris
from ingest import examples as examples_lib
from ingest.examples import spans
from ingest.examples.sources import Source
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs import encoder_source
from pipeline.inputs.resolved_checks import ResolvedChecks, resolve_checks
from pipeline.inputs.resolved_redaction import ResolvedRedaction, resolve_redaction


@dataclasses.dataclass(frozen=True)
class ResolvedInputs:
    """The inputs of a run.

    Attributes:
      examples: TFRecords of the splits.
      schema_file: Path of the schema of the Examples.
      encoder: The pre-trained encoder.
      span: The number of the span; None if the source has no spans.
      checks: The checks of the model.
      redaction: The function that redacts the texts that are shown.
    """

    examples: examples_lib.ExamplesDirectory
    schema_file: str
    encoder: encoder_source.ResolvedEncoder
    span: int | None = None
    checks: ResolvedChecks = dataclasses.field(default_factory=ResolvedChecks)
    redaction: ResolvedRedaction = dataclasses.field(default_factory=ResolvedRedaction)


def check_sources(config: Config) -> None:
    """Checks whether the remote sources of a run respond, before TFX is imported.

    Raises:
      UsageError: One does not.
    """
    for source in (config.data_source, config.encoder.source):
        if source.startswith(uris.OBJECT_STORE):
            files.check_remote(source)


def find_data(config: Config) -> tuple[str, Source | None]:
    """Finds the data of a run.

    Returns:
      Their location, and their files; None if they are remote or of TFDS.

    Raises:
      UsageError: They do not exist on this machine, or two files are one split.
    """
    location, settings = config.data_source, config.data
    if location.startswith(TFDS_PREFIX) or not uris.is_local(location):
        return location, None
    if spans.has_span(location):
        location, _ = spans.find_span(location, settings.span, lambda _: None)
    return location, examples_lib.find_source(location, settings)


def resolve_inputs(
    config: Config, paths: OutputPaths, report: Callable[[str], None] = lambda _: None
) -> ResolvedInputs:
    """Checks the sources of a run, and converts those that TFX cannot read.

    Raises:
      UsageError: A source is missing, malformed, or does not fit the settings.
    """
    redaction = resolve_redaction(config)
    checks = resolve_checks(config, paths)
    encoder = encoder_source.resolve_encoder(config, paths, report)
    # Every command imports this file: `--help` must not wait for TensorFlow, and
    # `doctor` must run where TensorFlow Metadata cannot be imported.
    from modules.training import experiment
    from pipeline.inputs import schema

    searched = config.tuner.ends(config.trainer) if config.tuner else ()
    for trainer in (config.trainer, *searched):
        try:
            # The optimizer would refuse these settings after hours.
            experiment.check_settings(trainer, encoder.directory)
        except UsageError:
            raise
        except ValueError as error:  # of Keras or the Model Garden
            raise SettingError("trainer.optimization", str(error)) from error
    schema_file = schema.write_schema(config.task, paths, config.data.schema_file)
    examples = examples_lib.resolve_examples(
        config.data_source,
        config.task,
        paths.examples,
        report,
        config.data,
        config.halving,
    )
    config.with_split(examples.patterns)
    span = examples.span.number if examples.span else None
    return ResolvedInputs(examples, str(schema_file), encoder, span, checks, redaction)
