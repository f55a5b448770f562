"""Checkpoints of a training that may be killed, and the best model's."""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

logger = logging.getLogger(__name__)

BEST = "best"
_PREFIX = "ckpt"  # CheckpointManager's own
_STATE = "checkpoint"
_KEPT = 2  # the newest, and the one before in case it cannot be read


class ResumableCheckpoints(tf.train.CheckpointManager):
    """Restores from the newest checkpoint that is whole, and says which.

    All processes of a training read the chief's directory; what the others write goes
    to a directory of their own, because saving takes all of them.
    """

    def __init__(
        self,
        checkpoint: tf.train.Checkpoint,
        directory: str,
        *,
        step_counter: tf.Variable,
        interval: int,
        init_fn: Any,
        is_chief: bool = True,
    ) -> None:
        """Opens a directory of checkpoints.

        Args:
          checkpoint: What is saved and restored.
          directory: Where the checkpoints of this training are.
          step_counter: The trainer's global step.
          interval: Steps between checkpoints.
          init_fn: Called where there is nothing to restore.
          is_chief: Whether this process writes to the directory.
        """
        self._shared = directory
        super().__init__(
            checkpoint,
            directory if is_chief else tempfile.mkdtemp(),
            max_to_keep=_KEPT,
            step_counter=step_counter,
            checkpoint_interval=interval,
            init_fn=init_fn,
        )

    def restore_or_initialize(self) -> str | None:
        """Restores the newest whole checkpoint, or initializes where there is none.

        A training that has started goes back: to a checkpoint of an earlier step.

        Returns:
          The path of the checkpoint; None where there is none.
        """
        state = tf.train.get_checkpoint_state(self._shared)
        paths = state.all_model_checkpoint_paths if state else []
        step = int(self._step_counter.numpy())
        if step:
            # The chief may not have discarded that of this step yet.
            paths = [path for path in paths if _step_of(path) < step]
        for path in reversed(paths):
            problem = find_problem(path)
            if problem:
                logger.warning("checkpoint %s is left out: %s", path, problem)
                # It must not count as one of those that are kept.
                self._maybe_delete.pop(path, None)
                continue
            self._checkpoint.restore(path)
            # The next interval starts here.
            self._last_checkpoint_step = int(self._step_counter.numpy())
            logger.info("resumed from step %d, %s", self._last_checkpoint_step, path)
            return path
        if paths:
            logger.warning("no checkpoint in %s is whole: from the start", self._shared)
        self._init_fn()
        return None

    def discard_current(self) -> None:
        """Deletes the checkpoint of the current step, if there is one."""
        path = f"{self._prefix}-{int(self._step_counter.numpy())}"
        if self._maybe_delete.pop(path, None) is None:
            return
        self._latest_checkpoint = next(reversed(self._maybe_delete), None)
        if self._maybe_delete:
            self._record_state()
        for name in tf.io.gfile.glob(f"{path}.*"):
            tf.io.gfile.remove(name)


def _step_of(path: str) -> int:
    return int(path.rpartition("-")[2])


def is_resumable_file(name: str) -> bool:
    """Tells whether a file's name is that of a checkpoint to go on from."""
    return name == _STATE or name.startswith(f"{_PREFIX}-")


def delete_resumable(directory: str) -> None:
    """Deletes the checkpoints to go on from; the best one stays."""
    for name in tf.io.gfile.listdir(directory):
        if is_resumable_file(name):
            path = os.path.join(directory, name)
            # A save that was killed leaves a directory, `ckpt-N_temp`.
            is_directory = tf.io.gfile.isdir(path)
            (tf.io.gfile.rmtree if is_directory else tf.io.gfile.remove)(path)


def find_problem(path: str) -> str | None:
    """Reads a whole checkpoint, and tells what makes it unfit to go on from.

    Args:
      path: Prefix of its files.

    Returns:
      The problem in words: a file that is missing or damaged (every tensor carries a
      checksum), or weights that are not finite. None where there is none.
    """
    try:
        reader = tf.train.load_checkpoint(path)
        for name in reader.get_variable_to_shape_map():
            tensor = reader.get_tensor(name)
            if np.issubdtype(np.asarray(tensor).dtype, np.floating) and not np.all(
                np.isfinite(tensor)
            ):
                return f"{name} is not finite"
    except (tf.errors.OpError, IndexError, RuntimeError, ValueError) as error:
        return f"it cannot be read ({str(error)[:200]})"
    return None


class BestCheckpoint:
    """The weights of the best model so far, with its step and score beside them.

    The record is written after the weights: what it names is always there.
    """

    _RECORD = "best.json"

    def __init__(self, directory: str) -> None:
        """Opens the best of a training; there need not be one yet.

        Args:
          directory: The training's.
        """
        self._directory = os.path.join(directory, BEST)

    def save(self, model: tf_keras.Model, record: dict[str, Any]) -> None:
        """Writes the weights in the place of the last best.

        Args:
          model: Its weights are written.
          record: `step` (int) and what else is worth knowing, as JSON can hold it.
        """
        before = self.record()
        path = self._path(record["step"])
        tf.train.Checkpoint(model=model).write(path)
        write_json(os.path.join(self._directory, self._RECORD), record)
        if before and before["step"] != record["step"]:
            for name in tf.io.gfile.glob(f"{self._path(before['step'])}.*"):
                tf.io.gfile.remove(name)

    def record(self) -> dict[str, Any] | None:
        """Returns what was recorded with the best; None where there is none."""
        return read_json(os.path.join(self._directory, self._RECORD))

    def restore(self, model: tf_keras.Model) -> None:
        """Reads the weights into a model, every one of them.

        Raises:
          FileNotFoundError: There is no best checkpoint.
        """
        record = self.record()
        if record is None:
            raise FileNotFoundError(f"no best checkpoint in {self._directory}")
        status = tf.train.Checkpoint(model=model).read(self._path(record["step"]))
        status.assert_existing_objects_matched()

    def _path(self, step: int) -> str:
        return os.path.join(self._directory, f"weights-{step}")


def write_json(path: str, content: Any) -> None:
    """Writes JSON so that a reader sees all of it or nothing.

    JSON has no NaN: what is not finite becomes null.
    """
    tf.io.gfile.makedirs(os.path.dirname(path))
    incomplete = f"{path}.incomplete"
    with tf.io.gfile.GFile(incomplete, "w") as file:
        file.write(json.dumps(_finite(content), indent=2, allow_nan=False) + "\n")
    tf.io.gfile.rename(incomplete, path, overwrite=True)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


def read_json(path: str) -> Any:
    """Reads JSON; None where there is no file."""
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        return json.load(file)
