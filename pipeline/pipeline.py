"""Builds the DAG of TFX's standard components and our own."""

from __future__ import annotations

import json
import os
from typing import Any

from tfx import v1 as tfx
from tfx.components import FileBasedExampleGen
from tfx.dsl.components.base import executor_spec

from components import example_gen as example_gen_lib
from components.champion import Champion, ChampionCheck
from components.data_gate import DataGate
from components.evaluator import Evaluator
from components.hyperparameters import Hyperparameters
from components.model_checks import registry
from components.model_checks.component import ModelChecks
from components.pusher import COMMITS_FILE, AtomicPusher
from components.report import Report
from components.serving_check import ServingCheck
from components.warm_start import WarmStart
from contracts import fingerprint
from contracts.task.definition import NOT_TRAINED, TRAIN_SPLIT
from contracts.versions import exported_model
from modules.training import warm_start
from pipeline.config.orchestrators import ORCHESTRATORS
from pipeline.config.parameters import TRAINER_SETTINGS, make_parameters
from pipeline.config.recipe import Config
from pipeline.config.tfx_names import (
    CHECK_RESULTS,
    EXAMPLE_GEN,
    PREPROCESSING_FN,
    RUN_FN,
    TUNER_FN,
)
from pipeline.inputs.resolve import ResolvedInputs
from pipeline.platforms import Platform
from report.content import LineageStep

# Settings that change where a run reads, runs and writes, but not what it computes.
_LOCATIONS: dict[str, Any] = {
    **dict.fromkeys(("beam", *ORCHESTRATORS, "output"), True),
    "data": {"source", "schema_file"},
    "encoder": {"source"},
    "checks": {
        name: set(check.Settings.rows_settings())
        for name, check in registry.find_checks().items()
    },
}


def create_pipeline(
    config: Config, inputs: ResolvedInputs, platform: Platform
) -> tfx.dsl.Pipeline:
    """Builds the pipeline of a configuration, the same DAG on every platform.

    Args:
      config: The settings.
      inputs: The resolved sources.
      platform: The arguments that differ by orchestrator.
    """
    config = config.with_split(inputs.examples.patterns)
    assert config.evaluator.split is not None
    task, encoder = config.task, inputs.encoder
    parameters = make_parameters(config, inputs.examples.input_base, platform.parameter)

    # Data: examples, statistics, schema, and the gate that refuses bad data.
    range_config = None
    if inputs.examples.span is not None:
        # The span is resolved already; ExampleGen also records it on the Examples.
        number = inputs.examples.span.number
        range_config = tfx.proto.RangeConfig(
            static_range=tfx.proto.StaticRange(
                start_span_number=number, end_span_number=number
            )
        )
    custom_config = None
    if inputs.examples.fingerprint is not None:
        custom_config = example_gen_lib.describe_files(
            inputs.examples.fingerprint, inputs.examples.counts
        )
    # ImportExampleGen, which has no `custom_config`.
    example_gen = FileBasedExampleGen(
        custom_executor_spec=executor_spec.BeamExecutorSpec(example_gen_lib.Executor),
        custom_config=custom_config,
        input_base=parameters["data"],
        input_config=tfx.proto.Input(
            splits=[
                tfx.proto.Input.Split(name=split, pattern=pattern)
                for split, pattern in inputs.examples.input_patterns.items()
            ]
        ),
        range_config=range_config,
    ).with_id(EXAMPLE_GEN)
    examples = example_gen.outputs["examples"]
    statistics_gen = tfx.components.StatisticsGen(examples=examples)
    statistics = statistics_gen.outputs["statistics"]
    # For people only: the schema below is the one that is enforced.
    schema_gen = tfx.components.SchemaGen(statistics=statistics)
    schema_importer = tfx.components.ImportSchemaGen(schema_file=inputs.schema_file)
    schema = schema_importer.outputs["schema"]
    validator = tfx.components.ExampleValidator(statistics=statistics, schema=schema)
    # The run's parameter `data` may name another directory, without a span.
    spans = {} if inputs.span is None else {inputs.examples.input_base: inputs.span}
    gate = DataGate(
        examples=examples,
        statistics=statistics,
        schema=schema,
        anomalies=validator.outputs["anomalies"],
        thresholds=parameters["thresholds"],
        source=parameters["data"],
        patterns=json.dumps(inputs.examples.input_patterns),
        spans=json.dumps(spans),
        profiles=platform.profiles,
        card=inputs.examples.card.model_dump_json(),
        vocab_file=encoder.vocab_file,
        vocab_fingerprint=encoder.vocab_fingerprint,
        checks=inputs.checks.of_data.as_json(),
        redact=inputs.redaction.as_json(),
        **_cache_key(DataGate, config),
    )

    # The pushed model: training may start from it, and the candidate is compared to it.
    warm_starts: list[Any] = []
    if config.trainer.warm_start != "encoder":
        expected = warm_start.describe(task, encoder.architecture)
        warm_starts = [
            WarmStart(
                examples=examples,
                directory=platform.pushed,
                expected=json.dumps(expected),
            )
        ]
    champion_arguments = {
        "directory": platform.pushed,
        "expected": json.dumps(exported_model.describe_task(task)),
    }
    champion_checks: list[Any] = []
    if config.evaluator.incompatible_champion != "ignore":
        champion_checks = [ChampionCheck(**champion_arguments)]

    # Training.
    transform = tfx.components.Transform(
        examples=examples,
        schema=schema,
        preprocessing_fn=PREPROCESSING_FN,
        disable_statistics=True,  # StatisticsGen computes those of the data
        custom_config={
            "task": task.model_dump(exclude=NOT_TRAINED),
            "packing": config.preprocessing.key(transform=True),
            "vocab_file": encoder.vocab_file,
            "vocab_fingerprint": encoder.vocab_fingerprint,
            # TFX's cache key does not see an edit of a function that it imports.
            "code_fingerprint": fingerprint.of_code(PREPROCESSING_FN),
            "libraries": platform.library_versions(fingerprint.TRANSFORM_LIBRARIES),
        },
    )
    # No data flow orders these, but Transform must not start if one of them fails.
    for check in (gate, *champion_checks):
        transform.add_upstream_node(check)
    evaluated_splits = [
        name for name in inputs.examples.patterns if name != TRAIN_SPLIT
    ]
    training = {
        "examples": transform.outputs["transformed_examples"],
        "transform_graph": transform.outputs["transform_graph"],
        "base_model": warm_starts[0].outputs["base_model"] if warm_starts else None,
        "train_args": tfx.proto.TrainArgs(splits=[TRAIN_SPLIT]),
        # Each is predicted; the best model is selected only on `eval`.
        "eval_args": tfx.proto.EvalArgs(splits=evaluated_splits),
    }
    training_config = {
        "task": task.model_dump(exclude=NOT_TRAINED),
        "packing": config.preprocessing.key(),
        "serving_precision": config.serving.precision,
        "encoder": encoder.directory,
        "encoder_fingerprint": encoder.fingerprint,
        "code_fingerprint": fingerprint.of_code(RUN_FN),
        "libraries": platform.library_versions(fingerprint.TRAINER_LIBRARIES),
        "checkpoints": platform.training,
    }
    tuners: list[Any] = []
    found: dict[str, Any] = {}
    if config.tuner is not None:
        tuner = tfx.components.Tuner(
            tuner_fn=TUNER_FN,
            custom_config={
                **training_config,
                "trainer": config.trainer.model_dump(),
                "tuner": config.tuner.model_dump(),
                "tuner_fingerprint": fingerprint.of_code(TUNER_FN),
                "optuna": platform.library_versions(["optuna"]),
            },
            **training,
        )
        tuners = [tuner]
        found["best_hyperparameters"] = tuner.outputs["best_hyperparameters"]
    hyperparameters = Hyperparameters(
        settings=config.trainer.model_dump_json(exclude=set(TRAINER_SETTINGS)),
        **{name: parameters[name] for name in TRAINER_SETTINGS},
        fingerprint=fingerprint.of_code(Hyperparameters.__module__),
        **found,
    )
    trainer = (platform.trainer or tfx.components.Trainer)(
        run_fn=RUN_FN,
        hyperparameters=hyperparameters.outputs["hyperparameters"],
        custom_config={
            **training_config,
            "decision": task.decision and task.decision.model_dump(),
            **platform.trainer_config,
        },
        **training,
    )
    model = trainer.outputs["model"]
    model_run = trainer.outputs["model_run"]

    # Release: the evaluation, the serving check and all other checks must bless it.
    champion = Champion(
        candidate=model_run,
        incompatible=config.evaluator.incompatible_champion,
        **champion_arguments,
    )
    evaluator = Evaluator(
        examples=examples,
        model=model,
        baseline_model=champion.outputs["model"],
        thresholds=parameters["thresholds"],
        max_regression=parameters["max_regression"],
        significance=parameters["significance"],
        **_cache_key(Evaluator, config),
    )
    serving_check = ServingCheck(
        model=model,
        examples=examples,
        model_run=model_run,
        redact=inputs.redaction.as_json(),
        **_cache_key(ServingCheck, config),
    )
    before_push, after_push = inputs.checks.by_stage
    kept_results = {}
    if platform.enable_cache:
        kept_results["cache"] = f"{platform.pipeline_root}/{CHECK_RESULTS}"
    model_checks = ModelChecks(
        examples=examples,
        model=model,
        model_run=model_run,
        champion=champion.outputs["model"],
        model_verdict=evaluator.outputs["verdict"],
        model_blessing=evaluator.outputs["blessing"],
        infra_blessing=serving_check.outputs["blessing"],
        checks=before_push.as_json(),
        significance=parameters["significance"],
        **kept_results,
        **_cache_key(ModelChecks, config),
    )
    pusher_inputs = {
        "model": model,
        "infra_blessing": model_checks.outputs["blessing"],
    }
    pusher = AtomicPusher(
        **pusher_inputs,
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(
                base_directory=platform.pushed
            )
        ),
        custom_config={COMMITS_FILE: platform.commits},
    )
    deployments = [platform.deploy(**pusher_inputs)] if platform.deploy else []
    recipe = config.model_dump(mode="json", exclude=_LOCATIONS)
    report = Report(
        examples=examples,
        statistics=statistics,
        data_verdict=gate.outputs["verdict"],
        hyperparameters=hyperparameters.outputs["hyperparameters"],
        model_run=model_run,
        model_verdict=evaluator.outputs["verdict"],
        infra_blessing=model_checks.outputs["blessing"],
        pushed_model=pusher.outputs["pushed_model"],
        pushed=platform.pushed,
        splitting=json.dumps(
            inputs.examples.card.splitting if inputs.examples.span is None else None
        ),
        checks=after_push.as_json(),
        redact=inputs.redaction.as_json(),
        significance=parameters["significance"],
        recipe=json.dumps(recipe),
        vocab_file=encoder.vocab_file,
        lineage=json.dumps(_describe_lineage(config, recipe, inputs)),
        # An orchestrator does not cache what reads the pushed versions.
        **(kept_results if platform.metadata else {}),
        **_cache_key(Report, config),
        **found,
    )

    return tfx.dsl.Pipeline(
        pipeline_name=config.name,
        pipeline_root=platform.pipeline_root,
        components=[
            example_gen,
            statistics_gen,
            schema_gen,
            schema_importer,
            validator,
            gate,
            *warm_starts,
            *champion_checks,
            transform,
            *tuners,
            hyperparameters,
            trainer,
            champion,
            evaluator,
            serving_check,
            model_checks,
            pusher,
            *deployments,
            report,
        ],
        enable_cache=platform.enable_cache,
        metadata_connection_config=platform.metadata,
        beam_pipeline_args=list(platform.beam_args),
    )


def _cache_key(component: Any, config: Config) -> dict[str, str]:
    """Returns the settings that a component reads, and the hash of its code."""
    return {
        "settings": config.model_dump_json(include=component.READS),
        "fingerprint": fingerprint.of_code(component.__module__),
    }


def _describe_lineage(
    config: Config, recipe: dict[str, Any], inputs: ResolvedInputs
) -> list[dict[str, Any]]:
    """Returns the fields of each `LineageStep` between the data and the model."""
    encoder = inputs.encoder
    code = {name: fingerprint.of_code(name) for name in (PREPROCESSING_FN, RUN_FN)}
    steps = [
        LineageStep(
            kind="code",
            name="preprocessing and training",
            version=fingerprint.of_text(*code.values()),
            details=code,
        ),
        LineageStep(
            kind="settings", name=config.name, version=fingerprint.of_json(recipe)
        ),
        LineageStep(
            kind="encoder",
            name=os.path.basename(config.encoder.source.rstrip("/")),
            version=encoder.fingerprint,
            uri=encoder.directory,
            details={"vocabulary": encoder.vocab_fingerprint},
        ),
    ]
    return [step.model_dump() for step in steps]
