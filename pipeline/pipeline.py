"""The DAG: TFX's standard components, and our own."""

from __future__ import annotations

import json

from tfx import v1 as tfx
from tfx.dsl.components.base.base_component import BaseComponent

from components import serving_check
from components.champion import Champion, ChampionCheck
from components.data_gate import DataGate
from components.evaluator import Evaluator
from components.hyperparameters import Hyperparameters
from components.pusher import AtomicPusher
from components.warm_start import WarmStart
from modules import fingerprint
from modules.evaluation import eval_config
from modules.export import description, signatures
from modules.training import model_run, warm_start
from pipeline.config.parameters import TRAINER_SETTINGS, RunParameters
from pipeline.config.recipe import Config
from pipeline.inputs.examples import ExamplesDirectory
from pipeline.inputs.resolve import ResolvedInputs
from pipeline.platforms import Platform

PREPROCESSING_FN = "modules.data.preprocessing.preprocessing_fn"
RUN_FN = "modules.training.run_fn.run_fn"
FIND_INCOMPATIBILITY = "modules.training.warm_start.find_incompatibility"
FIND_TASK_DIFFERENCE = "modules.export.description.find_task_difference"
VALIDATE_TRAINER = "modules.config.trainer.validate_trainer"


def create_pipeline(
    config: Config, inputs: ResolvedInputs, platform: Platform
) -> tfx.dsl.Pipeline:
    """Builds the pipeline of a configuration, the same DAG on every platform.

    Args:
      config: The settings.
      inputs: The resolved sources.
      platform: The arguments that differ by orchestrator.
    """
    parameters = RunParameters.of(
        config, inputs.examples.input_base, platform.parameter
    )
    data = _data_components(config, inputs, parameters)
    transform = _transform(config, inputs, platform, data)
    start = _start_components(config, inputs, platform, data)
    checks = _champion_checks(config, platform)
    for check in checks:
        transform.add_upstream_node(check)
    training = _training_components(
        config, inputs, platform, parameters, transform, start
    )
    release = _release_components(config, platform, parameters, data, training)
    return tfx.dsl.Pipeline(
        pipeline_name=config.name,
        pipeline_root=platform.pipeline_root,
        components=[
            *data.values(),
            *start,
            *checks,
            transform,
            *training.values(),
            *release,
        ],
        enable_cache=platform.enable_cache,
        metadata_connection_config=platform.metadata,
        beam_pipeline_args=list(platform.beam_args),
    )


def _transform(
    config: Config,
    inputs: ResolvedInputs,
    platform: Platform,
    data: dict[str, BaseComponent],
) -> BaseComponent:
    transform = tfx.components.Transform(
        examples=data["example_gen"].outputs["examples"],
        schema=data["schema"].outputs["schema"],
        preprocessing_fn=PREPROCESSING_FN,
        disable_statistics=True,  # StatisticsGen computes those of the data
        custom_config={
            "task": config.task.model_dump(),
            "max_seq_length": config.preprocessing.max_seq_length,
            "vocab_file": inputs.encoder.vocab_file,
            "vocab_fingerprint": inputs.encoder.vocab_fingerprint,
            "code_fingerprint": fingerprint.of_code(PREPROCESSING_FN),
            "libraries": platform.library_versions(fingerprint.TRANSFORM_LIBRARIES),
        },
    )
    transform.add_upstream_node(data["gate"])
    return transform


def _start_components(
    config: Config,
    inputs: ResolvedInputs,
    platform: Platform,
    data: dict[str, BaseComponent],
) -> list[BaseComponent]:
    if config.trainer.warm_start == "encoder":
        return []
    expected = warm_start.describe(config.task, inputs.encoder.architecture)
    return [
        WarmStart(
            examples=data["example_gen"].outputs["examples"],
            directory=platform.pushed,
            find_incompatibility=FIND_INCOMPATIBILITY,
            expected=json.dumps(expected),
            record=warm_start.CHAMPION_FILE,
        )
    ]


def _champion_checks(config: Config, platform: Platform) -> list[BaseComponent]:
    if config.evaluator.incompatible_champion == "ignore":
        return []
    return [ChampionCheck(**_champion_arguments(config, platform))]


def _champion_arguments(config: Config, platform: Platform) -> dict[str, str]:
    return {
        "directory": platform.pushed,
        "find_difference": FIND_TASK_DIFFERENCE,
        "expected": json.dumps(description.describe_task(config.task)),
    }


def _training_components(
    config: Config,
    inputs: ResolvedInputs,
    platform: Platform,
    parameters: RunParameters,
    transform: BaseComponent,
    start: list[BaseComponent],
) -> dict[str, BaseComponent]:
    hyperparameters = Hyperparameters(
        settings=config.trainer.model_dump_json(exclude=TRAINER_SETTINGS),
        validate=VALIDATE_TRAINER,
        epochs=parameters.epochs,
        steps_per_epoch=parameters.steps_per_epoch,
        learning_rate=parameters.learning_rate,
        fingerprint=fingerprint.of_code(Hyperparameters.__module__),
    )
    trainer = (platform.trainer or tfx.components.Trainer)(
        run_fn=RUN_FN,
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        hyperparameters=hyperparameters.outputs["hyperparameters"],
        base_model=start[0].outputs["base_model"] if start else None,
        train_args=tfx.proto.TrainArgs(splits=["train"]),
        # Every other split is predicted; the best model is selected on `eval` alone.
        eval_args=tfx.proto.EvalArgs(
            splits=[split for split in inputs.examples.patterns if split != "train"]
        ),
        custom_config={
            "task": config.task.model_dump(),
            "max_seq_length": config.preprocessing.max_seq_length,
            "encoder": inputs.encoder.directory,
            "encoder_fingerprint": inputs.encoder.fingerprint,
            "code_fingerprint": fingerprint.of_code(RUN_FN),
            "libraries": platform.library_versions(fingerprint.TRAINER_LIBRARIES),
            "checkpoints": platform.training,
            **platform.trainer_config,
        },
    )
    return {"hyperparameters": hyperparameters, "trainer": trainer}


def _data_components(
    config: Config, inputs: ResolvedInputs, parameters: RunParameters
) -> dict[str, BaseComponent]:
    example_gen = _example_gen(inputs.examples, parameters)
    statistics_gen = tfx.components.StatisticsGen(
        examples=example_gen.outputs["examples"]
    )
    # For people only: the schema below is the one that is enforced.
    schema_gen = tfx.components.SchemaGen(
        statistics=statistics_gen.outputs["statistics"]
    )
    schema = tfx.components.ImportSchemaGen(schema_file=inputs.schema_file)
    validator = tfx.components.ExampleValidator(
        statistics=statistics_gen.outputs["statistics"],
        schema=schema.outputs["schema"],
    )
    gate = DataGate(
        examples=example_gen.outputs["examples"],
        schema=schema.outputs["schema"],
        anomalies=validator.outputs["anomalies"],
        id_column=config.task.id_column,
        fingerprint=fingerprint.of_code(DataGate.__module__),
    )
    return {
        "example_gen": example_gen,
        "statistics": statistics_gen,
        "view": schema_gen,
        "schema": schema,
        "validator": validator,
        "gate": gate,
    }


def _example_gen(
    examples: ExamplesDirectory, parameters: RunParameters
) -> BaseComponent:
    splits = [
        tfx.proto.Input.Split(name=split, pattern=pattern)
        for split, pattern in examples.input_patterns.items()
    ]
    range_config = None
    if examples.span is not None:
        # The span is resolved already; ExampleGen also records it on the Examples.
        number = examples.span.number
        range_config = tfx.proto.RangeConfig(
            static_range=tfx.proto.StaticRange(
                start_span_number=number, end_span_number=number
            )
        )
    return tfx.components.ImportExampleGen(
        input_base=parameters.data,
        input_config=tfx.proto.Input(splits=splits),
        range_config=range_config,
    )


def _release_components(
    config: Config,
    platform: Platform,
    parameters: RunParameters,
    data: dict[str, BaseComponent],
    training: dict[str, BaseComponent],
) -> list[BaseComponent]:
    examples = data["example_gen"].outputs["examples"]
    model = training["trainer"].outputs["model"]
    champion = Champion(
        candidate=model,
        incompatible=config.evaluator.incompatible_champion,
        **_champion_arguments(config, platform),
    )
    evaluator = Evaluator(
        examples=examples,
        example_splits=[config.evaluator.split],
        model=model,
        baseline_model=champion.outputs["model"],
        eval_config=eval_config.build_eval_config(config.task),
        thresholds=parameters.thresholds,
        max_regression=parameters.max_regression,
        fingerprint=fingerprint.of_code(Evaluator.__module__),
    )
    checked = _serving_check(config, examples, training["trainer"])
    pusher_inputs = {
        "model": model,
        "model_blessing": evaluator.outputs["blessing"],
        "infra_blessing": checked.outputs["blessing"],
    }
    pusher = AtomicPusher(
        **pusher_inputs,
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(
                base_directory=platform.pushed
            )
        ),
    )
    deployed = [platform.deploy(**pusher_inputs)] if platform.deploy else []
    return [champion, evaluator, checked, pusher, *deployed]


def _serving_check(
    config: Config, examples: tfx.dsl.Channel, trainer: BaseComponent
) -> BaseComponent:
    split = config.evaluator.split
    predictions = model_run.describe_predictions(config.task, split)
    return serving_check.ServingCheck(
        model=trainer.outputs["model"],
        examples=examples,
        model_run=trainer.outputs["model_run"],
        split=split,
        settings=json.dumps(
            {
                **signatures.describe_requests(config.task),
                "predictions": predictions,
                **config.serving.model_dump(),
            }
        ),
        fingerprint=fingerprint.of_package(serving_check.__name__),
    )
