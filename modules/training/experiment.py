"""The experiment: our settings as the Model Garden's `ExperimentConfig`."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence

import tensorflow as tf
from official.core import config_definitions

from contracts.errors import SettingError
from contracts.packing import Packing
from contracts.settings.trainer import TrainerConfig
from contracts.storage import files
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT, TaskConfig
from modules.data import inputs, preprocessing
from modules.encoder.directory import open_without_vocabulary
from modules.encoder.model import DropoutRates
from modules.training import computation, label_statistics, optimization, strategies
from modules.training.fine_tuning_task import FineTuningConfig


@dataclasses.dataclass
class TrainerParams(config_definitions.TrainerConfig):
    """The Model Garden's trainer settings, and five more.

    Attributes:
      seed: Seed of initialization, dropout and shuffling.
      patience: Evaluations without improvement after which training stops.
      evaluate_first: Whether to evaluate before the first step too.
      async_checkpoints: Whether training continues while a checkpoint is written.
      delete_checkpoints: Whether a finished training deletes its checkpoints.
    """

    seed: int = 0
    patience: int | None = None
    evaluate_first: bool = False
    async_checkpoints: bool = False
    delete_checkpoints: bool = True


@dataclasses.dataclass
class ExperimentConfig(config_definitions.ExperimentConfig):
    """The Model Garden's configuration with our task and trainer settings."""

    task: FineTuningConfig = dataclasses.field(default_factory=FineTuningConfig)
    trainer: TrainerParams = dataclasses.field(default_factory=TrainerParams)


def build_experiment(
    task: TaskConfig,
    config: TrainerConfig,
    *,
    encoder: str,
    packing: Packing,
    splits: dict[str, list[str]],
    strategy: tf.distribute.Strategy,
    base_model: str = "",
    dtype: str = computation.FLOAT32,
) -> ExperimentConfig:
    """Builds the configuration of one training.

    Args:
      task: The task definition.
      config: The trainer's settings.
      encoder: Directory of the pre-trained encoder.
      packing: How texts become model inputs.
      splits: File patterns of each split's transformed Examples.
      strategy: The distribution strategy.
      base_model: Directory of the exported model to start from; empty starts from the
        encoder.
      dtype: The compute type; see `computation.choose_precision`.

    Raises:
      ValueError: The training split is empty or lacks what `trainer.class_weights`
        needs, a weight of a row is not allowed, or a setting contradicts another.
      EncoderError: A dropout rate of the encoder's configuration is invalid.
    """
    is_tpu = strategies.is_tpu(strategy)
    is_asynchronous = strategies.is_asynchronous(strategy)
    is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    _check_cluster(
        config, is_asynchronous=is_asynchronous, is_multi_worker=is_multi_worker
    )
    lengths = inputs.fixed_lengths(packing) if is_tpu else []
    train_data, eval_data = (
        examples_config(task, splits[split], config, lengths=lengths)
        for split in (TRAIN_SPLIT, EVAL_SPLIT)
    )
    train_data.is_training = True
    train_data.weight_column = task.weight_column
    train_data = share_files(train_data, strategy)
    train_data.examples = train_data.examples or inputs.count_examples(train_data)
    if not train_data.examples:
        raise ValueError(
            f"the training split {train_data.input_path} has no examples; check the "
            "output of Transform"
        )
    if is_asynchronous:
        train_data.workers = strategies.worker_count()
    eval_data.global_batch_size = config.evaluation_batch_size or config.batch_size
    if config.evaluation_steps:
        eval_data.first_rows = config.evaluation_steps * eval_data.global_batch_size
    eval_data = share_files(eval_data, strategy)
    rates = dropout_rates(config, encoder)
    steps_per_epoch = config.steps_per_epoch or inputs.count_steps(train_data)
    train_steps = config.epochs * steps_per_epoch
    balance = label_statistics.measure_balance(
        config.class_weights, task, train_data, strategy
    )
    return ExperimentConfig(
        task=FineTuningConfig(
            name=task.name,
            init_checkpoint=encoder,
            base_model=base_model,
            dropout=rates.hidden,
            attention_dropout=rates.attention,
            head_dropout=rates.head,
            frozen_layers=config.frozen_layers,
            gradient_clip_norm=config.gradient_clip_norm,
            loss_weights=balance.weights,
            head_bias=balance.log_odds,
            score_scale=list(
                label_statistics.measure_scale(task, train_data, strategy)
            ),
            **packing.model_settings,
            train_data=train_data,
            validation_data=eval_data,
        ),
        trainer=TrainerParams(
            optimizer_config=optimization.build_config(
                config, train_steps=train_steps, layers=count_layers(encoder)
            ),
            train_steps=train_steps,
            steps_per_loop=config.steps_per_loop,
            summary_interval=config.summary_interval or config.steps_per_loop,
            checkpoint_interval=config.checkpoint_interval or steps_per_epoch,
            max_to_keep=config.max_checkpoints,
            validation_interval=config.evaluation_interval or steps_per_epoch,
            validation_steps=config.evaluation_steps or -1,
            best_checkpoint_eval_metric=task.metric,
            loss_upper_bound=config.loss_upper_bound,
            recovery_max_trials=config.recovery_max_trials,
            # A single process handles SIGTERM itself; several must all save at once.
            preemption_on_demand_checkpoint=is_multi_worker,
            seed=config.seed,
            patience=config.patience,
            evaluate_first=config.evaluate_first,
            async_checkpoints=config.async_checkpoints,
            delete_checkpoints=config.delete_checkpoints,
        ),
        runtime=config_definitions.RuntimeConfig(
            distribution_strategy=type(strategy).__name__,
            tpu=config.tpu if is_tpu else None,
            num_gpus=len(tf.config.list_physical_devices("GPU")),
            mixed_precision_dtype=dtype,
        ),
    )


def with_seed(params: ExperimentConfig, seed: int) -> ExperimentConfig:
    """Returns the same training from another seed, without counting its data again."""
    seeded = copy.deepcopy(params)
    seeded.trainer.seed = seed
    seeded.task.train_data.seed = seed
    seeded.task.validation_data.seed = seed
    return seeded


def check_settings(config: TrainerConfig, encoder: str) -> None:
    """Checks the trainer's settings against each other and against an encoder.

    Raises:
      ValueError: It names the setting, its value and the values allowed.
      EncoderError: A dropout rate of the encoder's configuration is invalid.
    """
    layers = count_layers(encoder)
    if config.frozen_layers > layers:
        raise SettingError(
            "trainer.frozen_layers",
            str(config.frozen_layers),
            f"0 to {layers}, the encoder's layers",
        )
    dropout_rates(config, encoder)
    _check_cluster(
        config,
        is_asynchronous=config.strategy == "parameter_server",
        is_multi_worker=config.strategy == "multi_worker_mirrored",
    )
    optimization.build_optimizer(
        optimization.build_config(config, train_steps=100, layers=layers),
        transform_gradients=list,  # Keras refuses an optimizer that also clips
        mixed_precision=config.mixed_precision,
    )


def dropout_rates(config: TrainerConfig, encoder: str) -> DropoutRates:
    """Returns the rates of `trainer.dropout`, or of the encoder if it is left out.

    Raises:
      EncoderError: A dropout rate of the encoder's configuration is invalid.
    """
    if config.dropout is not None:
        return DropoutRates.of_hidden(config.dropout)
    return DropoutRates.of_encoder(open_without_vocabulary(encoder))


def count_layers(encoder: str) -> int:
    """Returns the number of layers of the encoder in a directory."""
    return int(open_without_vocabulary(encoder).config["num_hidden_layers"])


def examples_config(
    task: TaskConfig,
    patterns: list[str],
    config: TrainerConfig,
    *,
    lengths: Sequence[int] = (),
) -> inputs.ExamplesConfig:
    """Describes one pass over a split.

    Args:
      task: Names the columns.
      patterns: File patterns of the split's transformed Examples.
      config: Batch size and seed.
      lengths: Lengths in tokens that batches are padded to; see `inputs`.
    """
    return inputs.ExamplesConfig(
        input_path=patterns,
        global_batch_size=config.batch_size,
        is_training=False,
        drop_remainder=False,
        seed=config.seed,
        shuffle_buffer_size=config.shuffle_buffer_size,
        word_ids_column=task.own_name(preprocessing.INPUT_WORD_IDS),
        type_ids_column=task.own_name(preprocessing.INPUT_TYPE_IDS),
        label_column=task.label_column,
        id_column=task.id_column,
        label_dtype=task.label_kind.dtype,
        label_size=task.label_size,
        lengths=list(lengths),
    )


def share_files(
    data: inputs.ExamplesConfig, strategy: tf.distribute.Strategy
) -> inputs.ExamplesConfig:
    """Returns a split whose files are divided among the hosts, if there are enough.

    Call it in the processes of all hosts. All hosts of a TPU read all files, because
    its cores need batches of one padded length. All hosts also read all files for an
    evaluation of the first rows.
    """
    host, hosts = strategies.find_host(strategy)
    paths = files.list_records(data.input_path)
    if not inputs.suffices_for_hosts(paths, hosts) or data.first_rows:
        return data
    shard = data.replace(input_path=paths[host::hosts])
    counts = [0] * hosts
    counts[host] = inputs.count_examples(shard)
    counts = strategies.sum_over_hosts(strategy, counts)
    if not all(counts):  # a host without a row would have nothing to compute
        return data
    return shard.replace(host_examples=counts, host=host, examples=sum(counts))


def _check_cluster(
    config: TrainerConfig, *, is_asynchronous: bool, is_multi_worker: bool
) -> None:
    """Refuses settings that do not work on a cluster."""
    if config.optimization.get("ema") and is_asynchronous:
        raise SettingError(
            "trainer.optimization.ema",
            "does not work with the strategy parameter_server, whose workers have no "
            "common step",
            advice="choose another strategy",
        )
    if config.async_checkpoints and (is_asynchronous or is_multi_worker):
        raise SettingError(
            "trainer.async_checkpoints",
            "works only on one machine, not with the strategies multi_worker_mirrored "
            "and parameter_server",
            advice="leave it out",
        )
