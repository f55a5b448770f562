"""Fine-tunes the encoder; what TFX's Trainer runs."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from typing import Any

import orbit
import tensorflow as tf
import tensorflow_transform as tft
import tf_keras
from official.common import distribute_utils
from official.core import base_trainer, config_definitions
from official.modeling import optimization

from modules import encoder as encoder_lib
from modules import environment, export, inputs
from modules.task import PairClassificationTask
from pipeline.config import TrainerConfig
from pipeline.task import TaskConfig

logger = logging.getLogger(__name__)

_STEPS_PER_LOOP = 10  # steps between two lines of progress
_CHECKPOINTS_KEPT = 2
_WITHOUT_WEIGHT_DECAY = ["LayerNorm", "layer_norm", "bias"]


def run_fn(fn_args: Any) -> None:
    """Trains, evaluates and exports a classifier; called by TFX's Trainer.

    Args:
      fn_args: `tfx.v1.components.FnArgs`. Its `custom_config` holds `task`, `trainer`
        and `encoder` (a directory).
    """
    environment.keep_autograph_out_of_keras()
    task_config = TaskConfig.model_validate(fn_args.custom_config["task"])
    config = TrainerConfig.model_validate(fn_args.custom_config["trainer"])
    encoder = encoder_lib.open_encoder(fn_args.custom_config["encoder"])
    tf_keras.utils.set_random_seed(config.seed)

    strategy = choose_strategy(config.strategy)
    logger.info("strategy %s", type(strategy).__name__)
    # XLA compiles once per shape, so a TPU gets a single length.
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    pad_to = fn_args.custom_config["max_seq_length"] if is_tpu else None
    batches = read_batches(fn_args, config, task_config.label_column, pad_to)
    train_steps = config.epochs * batches.steps_per_epoch
    with strategy.scope():
        task = PairClassificationTask(
            encoder=encoder, classes=len(task_config.classes), dropout=config.dropout
        )
        trainer = build_trainer(
            task,
            config,
            train_steps=train_steps,
            train_batches=batches.train,
            eval_batches=batches.evaluation,
        )
    train_and_evaluate(
        trainer,
        strategy,
        directory=fn_args.model_run_dir,
        train_steps=train_steps,
        interval=batches.steps_per_epoch,
    )
    transform = tft.TFTransformOutput(fn_args.transform_output)
    export.export_model(
        trainer.model, transform, task_config, fn_args.serving_model_dir
    )


@dataclasses.dataclass(frozen=True)
class Batches:
    """What a training reads.

    Attributes:
      train: Endless batches of the training split.
      evaluation: One pass over the evaluation split.
      steps_per_epoch: Training batches of an epoch.
    """

    train: tf.data.Dataset
    evaluation: tf.data.Dataset
    steps_per_epoch: int


def read_batches(
    fn_args: Any, config: TrainerConfig, label_column: str, pad_to: int | None
) -> Batches:
    """Reads the transformed Examples of both splits.

    Args:
      fn_args: Names their files.
      config: Batch size, seed, and steps of an epoch where they are set.
      label_column: Name of the label.
      pad_to: Length that all batches are padded to; None pads to the batch's longest.

    Raises:
      ValueError: The training split is empty.
    """
    train, evaluation = (
        inputs.read_examples(files, label_column)
        for files in (fn_args.train_files, fn_args.eval_files)
    )
    examples = inputs.count_examples(train)
    if not examples:
        raise ValueError(f"the training split {fn_args.train_files} has no examples")
    size = config.batch_size
    return Batches(
        train=inputs.train_batches(
            train, batch_size=size, seed=config.seed, pad_to=pad_to
        ),
        evaluation=inputs.eval_batches(evaluation, batch_size=size, pad_to=pad_to),
        steps_per_epoch=config.steps_per_epoch or math.ceil(examples / size),
    )


def choose_strategy(name: str) -> tf.distribute.Strategy:
    """Returns the distribution strategy of a name, or of what the machine has.

    Args:
      name: `auto` (a TPU, else several GPUs, else one device), `one_device`,
        `mirrored` or `tpu`.
    """
    gpus = len(tf.config.list_logical_devices("GPU"))
    if name == "auto":
        if tf.config.list_physical_devices("TPU"):
            name = "tpu"
        else:
            name = "mirrored" if gpus > 1 else "one_device"
    if name == "one_device":
        gpus = min(gpus, 1)
    return distribute_utils.get_distribution_strategy(
        name, num_gpus=gpus, tpu_address="local" if name == "tpu" else None
    )


def build_optimizer(
    config: TrainerConfig, train_steps: int
) -> tf_keras.optimizers.Optimizer:
    """Builds AdamW with warmup and linear decay to 0 (Devlin et al. 2018, A.2).

    Args:
      config: The peak rate, warmup, weight decay and clipping.
      train_steps: Steps after which the rate is 0.
    """
    warmup_steps = round(config.warmup_fraction * train_steps)
    settings: dict[str, Any] = {
        "optimizer": {
            "type": "adamw",
            "adamw": {
                "epsilon": 1e-6,
                "weight_decay_rate": config.weight_decay,
                "exclude_from_weight_decay": _WITHOUT_WEIGHT_DECAY,
                "gradient_clip_norm": config.gradient_clip_norm,
            },
        },
        "learning_rate": {
            "type": "polynomial",
            "polynomial": {
                "initial_learning_rate": config.learning_rate,
                "end_learning_rate": 0.0,
                "decay_steps": train_steps - warmup_steps,
                # Without it decay would begin during warmup and miss the peak.
                "offset": warmup_steps,
            },
        },
    }
    if warmup_steps:
        settings["warmup"] = {
            "type": "linear",
            "linear": {"warmup_steps": warmup_steps, "warmup_learning_rate": 0.0},
        }
    factory = optimization.OptimizerFactory(optimization.OptimizationConfig(settings))
    return factory.build_optimizer(factory.build_learning_rate())


def build_trainer(
    task: PairClassificationTask,
    config: TrainerConfig,
    *,
    train_steps: int,
    train_batches: tf.data.Dataset,
    eval_batches: tf.data.Dataset,
) -> base_trainer.Trainer:
    """Builds the Model Garden's trainer around the task; call it in a strategy scope.

    Args:
      task: What is trained.
      config: How.
      train_steps: Steps of the whole training.
      train_batches: Endless `(inputs, labels)`, of the global batch size.
      eval_batches: One pass of the same.
    """
    strategy = tf.distribute.get_strategy()
    return base_trainer.Trainer(
        config=config_definitions.ExperimentConfig(),
        task=task,
        model=task.build_model(),
        optimizer=build_optimizer(config, train_steps),
        train_dataset=strategy.experimental_distribute_dataset(train_batches),
        validation_dataset=strategy.experimental_distribute_dataset(eval_batches),
    )


def train_and_evaluate(
    trainer: base_trainer.Trainer,
    strategy: tf.distribute.Strategy,
    *,
    directory: str,
    train_steps: int,
    interval: int,
) -> None:
    """Runs Orbit's loop with checkpoints and summaries.

    Args:
      trainer: What `build_trainer` returned.
      strategy: The strategy it was built under.
      directory: Where checkpoints and summaries go.
      train_steps: Global step to train to.
      interval: Steps between evaluations, and between checkpoints.
    """
    manager = tf.train.CheckpointManager(
        trainer.checkpoint,
        directory,
        max_to_keep=_CHECKPOINTS_KEPT,
        step_counter=trainer.global_step,
        checkpoint_interval=interval,
        init_fn=trainer.initialize,
    )
    controller = orbit.Controller(
        strategy=strategy,
        trainer=trainer,
        evaluator=trainer,
        global_step=trainer.global_step,
        steps_per_loop=_STEPS_PER_LOOP,
        checkpoint_manager=manager,
        summary_dir=f"{directory}/train",
        eval_summary_dir=f"{directory}/validation",
        train_actions=[ProgressLog(trainer.global_step, train_steps)],
        eval_actions=[EvaluationLog(trainer.global_step)],
    )
    controller.train_and_evaluate(
        train_steps=train_steps, eval_steps=-1, eval_interval=interval
    )


class ProgressLog:
    """An Orbit action that logs where training stands."""

    def __init__(self, global_step: tf.Variable, train_steps: int) -> None:
        """Starts the clock.

        Args:
          global_step: The trainer's.
          train_steps: The step at which training ends.
        """
        self._global_step = global_step
        self._train_steps = train_steps
        self._start = time.monotonic()

    def __call__(self, output: dict[str, Any]) -> None:
        """Logs the step, its losses and the seconds since the start."""
        logger.info(
            "step %d/%d loss %.3f accuracy %.3f rate %.1e %d s",
            self._global_step.numpy(),
            self._train_steps,
            output["training_loss"],
            output["accuracy"],
            output["learning_rate"],
            time.monotonic() - self._start,
        )


class EvaluationLog:
    """An Orbit action that logs each evaluation."""

    def __init__(self, global_step: tf.Variable) -> None:
        """Keeps the trainer's step variable."""
        self._global_step = global_step

    def __call__(self, output: dict[str, Any]) -> None:
        """Logs the step with loss and accuracy on the evaluation split."""
        logger.info(
            "step %d evaluation loss %.3f accuracy %.3f",
            self._global_step.numpy(),
            output["validation_loss"],
            output["accuracy"],
        )
