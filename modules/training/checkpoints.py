"""Checkpoints that a training resumes from, and key and lock of their directory."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from contracts import fingerprint
from contracts.errors import UsageError
from contracts.storage import file_lock, files, uris
from contracts.storage.file_lock import Heartbeat
from contracts.task.definition import TRAIN_SPLIT
from modules import remote_files
from modules.data import inputs
from modules.training import strategies, warm_start

logger = logging.getLogger(__name__)

BEAT_SECONDS = 15.0  # between two writes of a remote lock
STALE_SECONDS = 90.0  # several beats: a bucket may be unavailable for a while
_POLL_SECONDS = 1.0
_SETTLE_SECONDS = 2.0  # longer than a write takes

# The part of the Trainer's `custom_config` that the weights depend on.
_KEY_SETTINGS = ("task", "packing", "encoder_fingerprint", "code_fingerprint")
_PREFIX = "ckpt"  # the default of CheckpointManager
_STATE = "checkpoint"
# Errors of `load_checkpoint` and its reader.
_UNREADABLE = (tf.errors.OpError, IndexError, RuntimeError, ValueError)


def compute_key(
    settings: dict[str, Any],
    hyperparameters: str,
    splits: dict[str, list[str]],
    base_model: str = "",
    strategy: tf.distribute.Strategy | None = None,
) -> str:
    """Returns the hash of the data, code, libraries, settings and initial weights.

    Paths and machines do not count. The libraries are those of this process:
    `custom_config` may come from another machine.

    Args:
      settings: The Trainer's `custom_config`.
      hyperparameters: `TrainerConfig.fingerprint`.
      splits: File patterns of each split.
      base_model: The exported model to start from; empty for the encoder.
      strategy: Its hosts share the reading of the files; None is only this process.
    """
    strategy = strategy or tf.distribute.get_strategy()
    _, hosts = strategies.find_host(strategy)
    paths = {split: files.list_records(patterns) for split, patterns in splits.items()}
    content: dict[str, Any] = {"files": _hash_files(paths, strategy)}
    if inputs.suffices_for_hosts(paths[TRAIN_SPLIT], hosts):
        # Each host trains on its own files, so their number decides the rows of a step.
        content["hosts"] = hosts
    key_settings = {key: settings[key] for key in _KEY_SETTINGS}
    if base_model:
        key_settings["base_model"] = warm_start.fingerprint_of(base_model)
    return fingerprint.of_json(
        {
            **content,
            "settings": key_settings,
            "libraries": fingerprint.library_versions(fingerprint.TRAINER_LIBRARIES),
            "trainer": hyperparameters,
        }
    )[:16]


def _hash_files(
    paths: dict[str, list[str]], strategy: tf.distribute.Strategy
) -> dict[str, str]:
    """Returns the hash of each split's files, of which each host reads a part."""
    files = [path for split_paths in paths.values() for path in split_paths]
    host, hosts = strategies.find_host(strategy)
    hashes = np.zeros([len(files), fingerprint.HASH_BYTES], np.uint8)
    for index in range(host, len(files), hosts):
        hashes[index] = list(bytes.fromhex(fingerprint.of_file(files[index])))
    if hosts > 1:
        sums = strategies.sum_over_hosts(strategy, hashes.ravel().tolist())
        hashes = np.array(sums, np.uint8).reshape(hashes.shape)
    by_path = {
        path: row.tobytes().hex() for path, row in zip(files, hashes, strict=True)
    }
    return {
        split: fingerprint.of_hashes({path: by_path[path] for path in split_paths})
        for split, split_paths in paths.items()
    }


class ResumableCheckpoints(tf.train.CheckpointManager):
    """Restores the newest intact checkpoint.

    All workers restore from the chief's directory. Saving takes all of them too, so
    the others write to temporary directories.

    Attributes:
      saved_step: Step of the checkpoint that was last saved or restored; None before
        the first, and after it was discarded.
    """

    def __init__(
        self,
        checkpoint: tf.train.Checkpoint,
        directory: str,
        *,
        step_counter: tf.Variable,
        interval: int,
        max_to_keep: int,
        init_fn: Callable[[], None],
        is_chief: bool = True,
    ) -> None:
        self._shared = directory
        # Deleted with this object, or when the process ends.
        self._discarded = None if is_chief else tempfile.TemporaryDirectory()
        self.saved_step: int | None = None
        _read_state(directory)  # refuses a damaged one
        super().__init__(
            checkpoint,
            directory if self._discarded is None else self._discarded.name,
            max_to_keep=max_to_keep,
            step_counter=step_counter,
            # With None, Orbit would not even save at the end
            # (`_maybe_save_checkpoint` of orbit/controller.py).
            checkpoint_interval=interval,
            init_fn=init_fn,
        )
        if self.latest_checkpoint is None and _read_state(self._directory):
            raise remote_files.incomplete_read(uris.join(directory, _STATE))

    def sync(self) -> None:
        """Does not wait; see `wait`.

        Orbit calls it at the end of `train`, right after it starts to save an epoch's
        checkpoint. An evaluation can run while the checkpoint is written.
        """

    def save(self, *args: Any, **kwargs: Any) -> str | None:
        """Saves a checkpoint; see `tf.train.CheckpointManager`."""
        path = super().save(*args, **kwargs)
        if path is not None:
            self.saved_step = int(self._step_counter.numpy())
        return path

    def wait(self) -> None:
        """Waits for the checkpoint that is being written.

        Raises:
          OSError: It could not be written.
        """
        super().sync()
        checkpointer = self._checkpoint._async_checkpointer_impl
        if checkpointer is None:  # no checkpoint was written asynchronously
            return
        try:
            # TensorFlow would raise it at the next save, or never.
            checkpointer._check_async_thread_error()
        except Exception as error:
            path = f"{self._prefix}-{self._last_checkpoint_step}"
            raise OSError(f"the checkpoint {path} was not written: {error}") from error

    def restore_or_initialize(self) -> str | None:
        """Restores the newest intact checkpoint, or initializes if there is none.

        Orbit's `Controller.__init__` and the Model Garden's RecoveryAction call it.
        After the first step it restores a checkpoint of an earlier step.

        Returns:
          The path of the checkpoint, or None.

        Raises:
          OSError: After the first step no checkpoint is intact, or one could not be
            written.
          UsageError: The file with the names of the checkpoints is damaged.
          tf.errors.OpError: The storage does not respond.
        """
        self.wait()
        state = _read_state(self._shared)
        paths = state.all_model_checkpoint_paths if state else []
        step = int(self._step_counter.numpy())
        if step:
            # The chief may not have discarded the checkpoint of this step yet.
            paths = [path for path in paths if int(path.rpartition("-")[2]) < step]
        for path in reversed(paths):
            problem = find_problem(path)
            if problem:
                logger.warning("skipping checkpoint %s: %s", path, problem)
                # It must not count towards max_to_keep.
                self._maybe_delete.pop(path, None)
                continue
            try:
                self._checkpoint.restore(path)
            except _UNREADABLE as error:
                _raise_outage(error)
                raise
            # The next interval starts here.
            self._last_checkpoint_step = int(self._step_counter.numpy())
            self.saved_step = self._last_checkpoint_step
            logger.info("resumed from step %d, %s", self._last_checkpoint_step, path)
            return path
        if step:
            raise OSError(
                f"no intact checkpoint of a step before {step} in {self._shared}, so "
                "training cannot go back; delete the directory to start again"
            )
        if paths:
            logger.warning(
                "no intact checkpoint in %s: training starts again", self._shared
            )
        self._init_fn()
        return None

    def discard_current(self) -> None:
        """Deletes the checkpoint of the current step, if there is one."""
        self.wait()
        path = f"{self._prefix}-{int(self._step_counter.numpy())}"
        if self._maybe_delete.pop(path, None) is None:
            return
        self.saved_step = None
        self._latest_checkpoint = next(reversed(self._maybe_delete), None)
        if self._maybe_delete:
            self._record_state()
        for name in tf.io.gfile.glob(f"{path}.*"):
            tf.io.gfile.remove(name)


def is_resumable_file(name: str) -> bool:
    """Returns whether a file name belongs to the resumable checkpoints."""
    # A killed save of the state leaves `checkpoint.tmpHEX`.
    return name == _STATE or name.startswith((f"{_PREFIX}-", f"{_STATE}.tmp"))


def delete_resumable(directory: str) -> None:
    """Deletes the resumable checkpoints; the best weights stay."""
    for name in tf.io.gfile.listdir(directory):
        if is_resumable_file(name):
            path = uris.join(directory, name)
            # A killed save leaves a directory, `ckpt-N_temp`.
            is_directory = tf.io.gfile.isdir(path)
            (tf.io.gfile.rmtree if is_directory else tf.io.gfile.remove)(path)


def find_problem(path: str) -> str | None:
    """Reads a whole checkpoint and returns why it cannot be resumed from.

    Args:
      path: Prefix of its files.

    Returns:
      A file is missing or damaged (every tensor has a checksum), or a weight is NaN or
      infinite. None if the checkpoint is intact.

    Raises:
      tf.errors.OpError: The storage does not respond.
    """
    try:
        return _find_infinite_weight(path)
    except _UNREADABLE as error:
        if uris.is_local(path):
            return _describe_damage(error)
    # A truncated response looks like damage, unless TensorFlow has cached the sizes.
    for name in tf.io.gfile.glob(f"{path}.*"):
        files.size(name)
    try:
        return _find_infinite_weight(path)
    except _UNREADABLE as error:
        return _describe_damage(error)


def _find_infinite_weight(path: str) -> str | None:
    reader = tf.train.load_checkpoint(path)
    for name in reader.get_variable_to_shape_map():
        tensor = reader.get_tensor(name)
        if np.issubdtype(np.asarray(tensor).dtype, np.floating) and not np.all(
            np.isfinite(tensor)
        ):
            return f"{name} is not finite"
    return None


def _describe_damage(error: Exception) -> str:
    _raise_outage(error)
    return f"it cannot be read ({str(error)[:200]})"


def _raise_outage(error: Exception) -> None:
    """Raises UnavailableError if the storage does not respond; see `is_outage`."""
    if remote_files.is_outage(str(error)):
        raise tf.errors.UnavailableError(None, None, str(error)) from error


def _read_state(directory: str) -> Any:
    """Returns the state that lists the checkpoints; None without one.

    Raises:
      UsageError: The file with the names is damaged.
      tf.errors.OpError: The storage does not respond.
    """
    path = uris.join(directory, _STATE)
    # `get_checkpoint_state` also returns None after an error, of storage too.
    for _ in range(2):
        with contextlib.suppress(ValueError):  # the file is empty
            state = tf.train.get_checkpoint_state(directory)
            if state is not None:
                return state
        if files.read(path) is None:
            return None
    raise UsageError(
        path,
        "damaged",
        advice="restore it from a backup to resume the training, or delete it: the "
        "training then starts from its first step",
        name="E-record-damaged",
    )


class DirectoryInUseError(Exception):
    """Another job trains in the same directory."""


@contextlib.contextmanager
def hold_directory(directory: str) -> Iterator[Callable[[], None]]:
    """Holds the lock of a directory as long as the context is open.

    On a file system the kernel frees it when the process ends, even by SIGKILL. An
    object store has no locks: there the lock is a file that its owner rewrites every
    `BEAT_SECONDS`. A new job watches that file. It fails as soon as the file changes,
    and takes over if it does not change for `STALE_SECONDS`.

    Args:
      directory: Local or remote; created if it does not exist.

    Yields:
      A function to call before each write. It raises DirectoryInUseError if this job
      could not write for `STALE_SECONDS` and another job took the lock over. It raises
      tf.errors.OpError if the lock still cannot be read after that time.

    Raises:
      DirectoryInUseError: Another job holds the lock.
    """
    files.make_directory(directory)
    path = uris.join(directory, file_lock.DIRECTORY_LOCK)
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    if not uris.is_local(directory):
        _wait_for_owner(path)
        with _RemoteLock(path, owner) as lock:
            yield lock.check
        return
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(file_lock.hold(path, owner))
        except file_lock.LockedError as error:
            raise _in_use(path, error.owner) from error
        yield lambda: None


def _wait_for_owner(path: str) -> None:
    """Returns when the lock is free or its owner is dead; see `hold_directory`."""
    content = files.read_record(path)
    if content is None:
        return
    logger.info("%s names %s: waiting for a heartbeat", path, content["owner"])
    deadline = time.monotonic() + STALE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        newer = files.read_record(path)
        if newer is None:
            return
        if newer != content:
            raise _in_use(path, newer["owner"])
    logger.warning("%s is stale: taken over", path)


class _RemoteLock:
    """The lock's file, which a thread rewrites."""

    def __init__(self, path: str, owner: str) -> None:
        self._path = path
        self._content: dict[str, Any] = {
            "owner": owner,
            "token": uuid.uuid4().hex,
            "beat": 0,
        }
        self._new_owner: str | None = None
        self._mutex = threading.Lock()  # between the thread and `check`
        self._renewed_at = time.monotonic()
        self._heartbeat = Heartbeat(self._renew, seconds=BEAT_SECONDS, path=path)

    def __enter__(self) -> _RemoteLock:
        self._write()
        # Of two jobs that start at once, the one that wrote last has the lock.
        time.sleep(_SETTLE_SECONDS)
        self._find_new_owner()
        self.check()
        self._heartbeat.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._heartbeat.stop()
        try:
            self._find_new_owner()
            if self._new_owner is None and tf.io.gfile.exists(self._path):
                tf.io.gfile.remove(self._path)
        except tf.errors.OpError as error:
            # The training has ended. The next job takes the stale file over.
            logger.warning("%s was not removed: %s", self._path, error)

    def check(self) -> None:
        # The thread may have been stopped with the whole process.
        if time.monotonic() - self._renewed_at > STALE_SECONDS:
            self._renew()
        if self._new_owner is not None:
            raise _in_use(self._path, self._new_owner)

    def _renew(self) -> None:
        with self._mutex:
            start = time.monotonic()
            self._find_new_owner()
            if self._new_owner is None:
                self._write()
                self._renewed_at = start

    def _find_new_owner(self) -> None:
        content = files.read_record(self._path)
        if content is not None and content["token"] != self._content["token"]:
            self._new_owner = content["owner"]

    def _write(self) -> None:
        self._content["beat"] += 1
        files.write_record(self._path, self._content)


def _in_use(path: str, owner: str) -> DirectoryInUseError:
    directory = os.path.dirname(path)
    return DirectoryInUseError(
        f"training directory {directory} is in use by {owner}; wait until that job "
        "ends or stop it, then start this one again: it resumes from the same "
        "checkpoints"
    )
