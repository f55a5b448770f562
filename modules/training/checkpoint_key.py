"""The checkpoint key: hash of data, code, libraries, settings and initial weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from contracts import fingerprint
from contracts.storage import files
from contracts.task.definition import TRAIN_SPLIT
from modules.data import inputs
from modules.training import strategies, warm_start

# The part of the Trainer's `custom_config` that the weights depend on.
_KEY_SETTINGS = ("task", "packing", "encoder_fingerprint", "code_fingerprint")


def compute(
    settings: dict[str, Any],
    hyperparameters: str,
    splits: dict[str, list[str]],
    base_model: str = "",
    strategy: tf.distribute.Strategy | None = None,
) -> str:
    """Returns the checkpoint key of a training.

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
