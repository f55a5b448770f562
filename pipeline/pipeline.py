"""The DAG: standard TFX components, and ours where none does the job."""

from __future__ import annotations

from tfx import v1 as tfx

from components.champion import LatestBlessedOtherModelStrategy
from components.data_gate import DataGate
from components.pusher import AtomicPusher
from modules import evaluation
from pipeline import fingerprint
from pipeline.config import Config
from pipeline.paths import OutputPaths
from pipeline.resolve import ResolvedInputs

PREPROCESSING_FN = "modules.preprocessing.preprocessing_fn"
RUN_FN = "modules.training.run_fn"

# In this process. Beam's default runner looks for a server program first, which it
# would download.
_BEAM_ARGS = ["--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"]

_standard = tfx.types.standard_artifacts


def create_pipeline(
    config: Config, inputs: ResolvedInputs, paths: OutputPaths
) -> tfx.dsl.Pipeline:
    """Builds the pipeline of a configuration.

    Args:
      config: The settings.
      inputs: What their sources turned out to be.
      paths: Where artifacts, metadata and the pushed model go.
    """
    return tfx.dsl.Pipeline(
        pipeline_name=config.name,
        pipeline_root=str(paths.artifacts),
        components=_components(config, inputs, paths),
        enable_cache=True,
        metadata_connection_config=(
            tfx.orchestration.metadata.sqlite_metadata_connection_config(
                str(paths.metadata)
            )
        ),
        beam_pipeline_args=_BEAM_ARGS,
    )


def _components(
    config: Config, inputs: ResolvedInputs, paths: OutputPaths
) -> list[tfx.dsl.components.BaseComponent]:
    data = _data_components(config, inputs)
    example_gen = data["example_gen"]
    transform = tfx.components.Transform(
        examples=example_gen.outputs["examples"],
        schema=data["schema"].outputs["schema"],
        preprocessing_fn=PREPROCESSING_FN,
        custom_config={
            "task": config.task.model_dump(),
            "max_seq_length": config.preprocessing.max_seq_length,
            "vocab_file": inputs.encoder.vocab_file,
            "vocab_fingerprint": inputs.encoder.vocab_fingerprint,
            "code_fingerprint": fingerprint.of_code(PREPROCESSING_FN),
        },
    )
    transform.add_upstream_node(data["gate"])
    trainer = tfx.components.Trainer(
        run_fn=RUN_FN,
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        train_args=tfx.proto.TrainArgs(splits=["train"]),
        # All that can be predicted on; models are chosen on `eval` alone.
        eval_args=tfx.proto.EvalArgs(
            splits=[split for split in inputs.examples.patterns if split != "train"]
        ),
        custom_config={
            "task": config.task.model_dump(),
            "trainer": config.trainer.model_dump(),
            "max_seq_length": config.preprocessing.max_seq_length,
            "encoder": inputs.encoder.directory,
            "encoder_fingerprint": inputs.encoder.fingerprint,
            "code_fingerprint": fingerprint.of_code(RUN_FN),
            "checkpoints": str(paths.training),
        },
    )
    release = _release_components(config, paths, example_gen, trainer)
    return [*data.values(), transform, trainer, *release]


def _data_components(
    config: Config, inputs: ResolvedInputs
) -> dict[str, tfx.dsl.components.BaseComponent]:
    splits = [
        tfx.proto.Input.Split(name=split, pattern=pattern)
        for split, pattern in inputs.examples.patterns.items()
    ]
    example_gen = tfx.components.ImportExampleGen(
        input_base=inputs.examples.directory,
        input_config=tfx.proto.Input(splits=splits),
    )
    statistics_gen = tfx.components.StatisticsGen(
        examples=example_gen.outputs["examples"]
    )
    # What the data looks like, beside what it must look like.
    schema_gen = tfx.components.SchemaGen(
        statistics=statistics_gen.outputs["statistics"]
    )
    schema = tfx.components.ImportSchemaGen(schema_file=str(inputs.schema_file))
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


def _release_components(
    config: Config,
    paths: OutputPaths,
    example_gen: tfx.dsl.components.BaseComponent,
    trainer: tfx.dsl.components.BaseComponent,
) -> list[tfx.dsl.components.BaseComponent]:
    champion = tfx.dsl.Resolver(
        strategy_class=LatestBlessedOtherModelStrategy,
        model=tfx.dsl.Channel(type=_standard.Model),
        model_blessing=tfx.dsl.Channel(type=_standard.ModelBlessing),
        candidate=trainer.outputs["model"],
    ).with_id("Champion")
    evaluator = tfx.components.Evaluator(
        examples=example_gen.outputs["examples"],
        example_splits=[config.evaluator.split],
        model=trainer.outputs["model"],
        baseline_model=champion.outputs["model"],
        eval_config=evaluation.build_eval_config(config.task, config.evaluator),
    )
    pusher = AtomicPusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(
                base_directory=str(paths.pushed)
            )
        ),
    )
    return [champion, evaluator, pusher]
