"""The DAG: TFX's standard components, and our own."""

from __future__ import annotations

import json
import os
from typing import Any

from tfx import v1 as tfx
from tfx.dsl.components.base.base_component import BaseComponent

from components.champion import Champion, ChampionCheck
from components.data_gate import DataGate, DataGateSettings
from components.evaluator import Evaluator
from components.hyperparameters import Hyperparameters
from components.pusher import AtomicPusher
from components.report import Report, ReportSettings
from components.serving_check import ServingCheck, ServingCheckSettings
from components.warm_start import WarmStart
from modules import fingerprint
from modules.evaluation import eval_config, prediction_files, tfma_metrics
from modules.export import description, signatures
from modules.report.content import LineageStep
from modules.training import warm_start
from pipeline.config.parameters import TRAINER_SETTINGS, RunParameters
from pipeline.config.recipe import Config
from pipeline.config.tfx_names import PREPROCESSING_FN, RUN_FN
from pipeline.inputs.examples.splits import TRAIN
from pipeline.inputs.resolve import ResolvedInputs
from pipeline.platforms import Platform

# Settings that do not change what a run makes: where it reads, runs and writes.
_PLACES: dict[str, Any] = {
    **dict.fromkeys(("beam", "kubeflow", "vertex", "output"), True),
    "data": {"source", "schema_file"},
    "encoder": {"source"},
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
    return tfx.dsl.Pipeline(
        pipeline_name=config.name,
        pipeline_root=platform.pipeline_root,
        components=_Builder(config, inputs, platform).build(),
        enable_cache=platform.enable_cache,
        metadata_connection_config=platform.metadata,
        beam_pipeline_args=list(platform.beam_args),
    )


class _Builder:
    def __init__(
        self, config: Config, inputs: ResolvedInputs, platform: Platform
    ) -> None:
        self._config = config
        self._inputs = inputs
        self._platform = platform
        self._parameters = RunParameters.of(
            config, inputs.examples.input_base, platform.parameter
        )
        self._example_gen = self._make_example_gen()
        self._examples = self._example_gen.outputs["examples"]

    def build(self) -> list[BaseComponent]:
        data = self._data_components()
        transform = self._transform(data["schema"], upstream=data["gate"])
        start = self._start_components()
        checks = self._champion_checks()
        for check in checks:
            transform.add_upstream_node(check)
        hyperparameters = self._hyperparameters()
        trainer = self._trainer(transform, hyperparameters, start)
        release = self._release_components(trainer)
        report = self._report(data, hyperparameters, trainer, release)
        return [
            self._example_gen,
            *data.values(),
            *start,
            *checks,
            transform,
            hyperparameters,
            trainer,
            *release.values(),
            report,
        ]

    def _make_example_gen(self) -> BaseComponent:
        examples = self._inputs.examples
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
            input_base=self._parameters.data,
            input_config=tfx.proto.Input(splits=splits),
            range_config=range_config,
        )

    def _data_components(self) -> dict[str, BaseComponent]:
        statistics_gen = tfx.components.StatisticsGen(examples=self._examples)
        statistics = statistics_gen.outputs["statistics"]
        schema = tfx.components.ImportSchemaGen(schema_file=self._inputs.schema_file)
        validator = tfx.components.ExampleValidator(
            statistics=statistics, schema=schema.outputs["schema"]
        )
        return {
            "statistics": statistics_gen,
            # For people only: the schema below is the one that is enforced.
            "view": tfx.components.SchemaGen(statistics=statistics),
            "schema": schema,
            "validator": validator,
            "gate": self._data_gate(statistics_gen, schema, validator),
        }

    def _data_gate(
        self,
        statistics: BaseComponent,
        schema: BaseComponent,
        validator: BaseComponent,
    ) -> BaseComponent:
        examples, span = self._inputs.examples, self._inputs.span
        settings = DataGateSettings(
            run=self._config.run_settings,
            limits=self._config.data_gate,
            vocab_file=self._inputs.encoder.vocab_file,
            vocab_fingerprint=self._inputs.encoder.vocab_fingerprint,
            patterns=examples.input_patterns,
            # The run's parameter `data` may name another directory, without a span.
            spans={} if span is None else {examples.input_base: span},
            profiles=self._platform.profiles,
            card=examples.card.model_dump(),
        )
        return DataGate(
            examples=self._examples,
            statistics=statistics.outputs["statistics"],
            schema=schema.outputs["schema"],
            anomalies=validator.outputs["anomalies"],
            settings=settings.model_dump_json(),
            thresholds=self._parameters.thresholds,
            source=self._parameters.data,
            fingerprint=fingerprint.of_code(DataGate.__module__),
        )

    def _transform(
        self, schema: BaseComponent, upstream: BaseComponent
    ) -> BaseComponent:
        libraries = fingerprint.TRANSFORM_LIBRARIES
        transform = tfx.components.Transform(
            examples=self._examples,
            schema=schema.outputs["schema"],
            preprocessing_fn=PREPROCESSING_FN,
            disable_statistics=True,  # StatisticsGen computes those of the data
            custom_config={
                "task": self._config.task.model_dump(),
                "max_seq_length": self._config.preprocessing.max_seq_length,
                "vocab_file": self._inputs.encoder.vocab_file,
                "vocab_fingerprint": self._inputs.encoder.vocab_fingerprint,
                "code_fingerprint": fingerprint.of_code(PREPROCESSING_FN),
                "libraries": self._platform.library_versions(libraries),
            },
        )
        transform.add_upstream_node(upstream)
        return transform

    def _start_components(self) -> list[BaseComponent]:
        if self._config.trainer.warm_start == "encoder":
            return []
        architecture = self._inputs.encoder.architecture
        expected = warm_start.describe(self._config.task, architecture)
        return [
            WarmStart(
                examples=self._examples,
                directory=self._platform.pushed,
                expected=json.dumps(expected),
            )
        ]

    def _champion_checks(self) -> list[BaseComponent]:
        if self._config.evaluator.incompatible_champion == "ignore":
            return []
        return [ChampionCheck(**self._champion_arguments())]

    def _champion_arguments(self) -> dict[str, str]:
        return {
            "directory": self._platform.pushed,
            "expected": json.dumps(description.describe_task(self._config.task)),
        }

    def _hyperparameters(self) -> BaseComponent:
        return Hyperparameters(
            settings=self._config.trainer.model_dump_json(exclude=TRAINER_SETTINGS),
            epochs=self._parameters.epochs,
            steps_per_epoch=self._parameters.steps_per_epoch,
            learning_rate=self._parameters.learning_rate,
            fingerprint=fingerprint.of_code(Hyperparameters.__module__),
        )

    def _trainer(
        self,
        transform: BaseComponent,
        hyperparameters: BaseComponent,
        start: list[BaseComponent],
    ) -> BaseComponent:
        platform, encoder = self._platform, self._inputs.encoder
        splits = [split for split in self._inputs.examples.patterns if split != TRAIN]
        return (platform.trainer or tfx.components.Trainer)(
            run_fn=RUN_FN,
            examples=transform.outputs["transformed_examples"],
            transform_graph=transform.outputs["transform_graph"],
            hyperparameters=hyperparameters.outputs["hyperparameters"],
            base_model=start[0].outputs["base_model"] if start else None,
            train_args=tfx.proto.TrainArgs(splits=[TRAIN]),
            # Each is predicted; the best model is selected on `eval` alone.
            eval_args=tfx.proto.EvalArgs(splits=splits),
            custom_config={
                "task": self._config.task.model_dump(),
                "max_seq_length": self._config.preprocessing.max_seq_length,
                "serving_precision": self._config.serving.precision,
                "encoder": encoder.directory,
                "encoder_fingerprint": encoder.fingerprint,
                "code_fingerprint": fingerprint.of_code(RUN_FN),
                "libraries": platform.library_versions(fingerprint.TRAINER_LIBRARIES),
                "checkpoints": platform.training,
                **platform.trainer_config,
            },
        )

    def _release_components(self, trainer: BaseComponent) -> dict[str, BaseComponent]:
        evaluator_settings = self._config.evaluator
        model = trainer.outputs["model"]
        champion = Champion(
            candidate=trainer.outputs["model_run"],
            incompatible=evaluator_settings.incompatible_champion,
            **self._champion_arguments(),
        )
        evaluator = Evaluator(
            examples=self._examples,
            example_splits=[evaluator_settings.split],
            model=model,
            baseline_model=champion.outputs["model"],
            eval_config=eval_config.build_eval_config(self._config.task),
            module_path=tfma_metrics.__name__,
            thresholds=self._parameters.thresholds,
            max_regression=self._parameters.max_regression,
            fingerprint=fingerprint.of_code(Evaluator.__module__),
        )
        checked = self._serving_check(trainer)
        pusher_inputs = {
            "model": model,
            "model_blessing": evaluator.outputs["blessing"],
            "infra_blessing": checked.outputs["blessing"],
        }
        pusher = AtomicPusher(
            **pusher_inputs,
            push_destination=tfx.proto.PushDestination(
                filesystem=tfx.proto.PushDestination.Filesystem(
                    base_directory=self._platform.pushed
                )
            ),
        )
        deploy = self._platform.deploy
        deployed = {"deployed": deploy(**pusher_inputs)} if deploy else {}
        return {
            "champion": champion,
            "evaluator": evaluator,
            "check": checked,
            "pusher": pusher,
            **deployed,
        }

    def _serving_check(self, trainer: BaseComponent) -> BaseComponent:
        task, split = self._config.task, self._config.evaluator.split
        settings = ServingCheckSettings(
            **signatures.describe_requests(task),
            predictions=prediction_files.describe_predictions(task, split),
            **self._config.serving.model_dump(),
        )
        return ServingCheck(
            model=trainer.outputs["model"],
            examples=self._examples,
            model_run=trainer.outputs["model_run"],
            split=split,
            settings=settings.model_dump_json(),
            fingerprint=fingerprint.of_code(ServingCheck.__module__),
        )

    def _report(
        self,
        data: dict[str, BaseComponent],
        hyperparameters: BaseComponent,
        trainer: BaseComponent,
        release: dict[str, BaseComponent],
    ) -> BaseComponent:
        return Report(
            examples=self._examples,
            statistics=data["statistics"].outputs["statistics"],
            data_verdict=data["gate"].outputs["verdict"],
            hyperparameters=hyperparameters.outputs["hyperparameters"],
            model_run=trainer.outputs["model_run"],
            evaluation=release["evaluator"].outputs["evaluation"],
            model_verdict=release["evaluator"].outputs["verdict"],
            infra_blessing=release["check"].outputs["blessing"],
            pushed_model=release["pusher"].outputs["pushed_model"],
            settings=self._report_settings().model_dump_json(),
            fingerprint=fingerprint.of_code(Report.__module__),
        )

    def _report_settings(self) -> ReportSettings:
        config, encoder = self._config, self._inputs.encoder
        recipe = config.model_dump(mode="json", exclude=_PLACES)
        code = {name: fingerprint.of_code(name) for name in (PREPROCESSING_FN, RUN_FN)}
        return ReportSettings(
            run=config.run_settings,
            vocab_file=encoder.vocab_file,
            recipe=recipe,
            lineage=[
                LineageStep(
                    kind="code",
                    name="preprocessing and training",
                    version=fingerprint.of_text(*code.values()),
                    details=code,
                ),
                LineageStep(
                    kind="settings",
                    name=config.name,
                    version=fingerprint.of_json(recipe),
                ),
                LineageStep(
                    kind="encoder",
                    name=os.path.basename(config.encoder.source.rstrip("/")),
                    version=encoder.fingerprint,
                    uri=encoder.directory,
                    details={"vocabulary": encoder.vocab_fingerprint},
                ),
            ],
        )
