"""Batches for the replicas of this process, without TensorFlow's own distribution.

TensorFlow wraps a distributed dataset in one that tunes itself, whose deletion can take
a minute (`OwnedMultiDeviceIterator`; no option reaches it). Here the replicas take
their batches in turn from one iterator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from modules.data import inputs
from modules.training import strategies

_PREFETCHED = 2  # batches

BuildDataset = Callable[..., tf.data.Dataset]


def is_supported(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process reads the batches of all its replicas itself."""
    supported = (
        tf.distribute.OneDeviceStrategy,
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
    )
    return isinstance(strategy, supported)


def build(
    strategy: tf.distribute.Strategy,
    build_dataset: BuildDataset,
    *args: Any,
    **kwargs: Any,
) -> tf.data.Dataset:
    """Builds the batches of this process, one for each of its replicas in turn.

    The number of batches must be a multiple of the local replicas, and the same on all
    hosts: each replica needs one at each step.

    Args:
      strategy: The strategy, which must be supported.
      build_dataset: Returns the dataset. If it has an argument `input_context`, it
        receives the `tf.distribute.InputContext` of this process.
      *args: Its arguments.
      **kwargs: Its keyword arguments.
    """
    if "input_context" in inspect.signature(build_dataset).parameters:
        host, hosts = strategies.find_host(strategy)
        kwargs["input_context"] = tf.distribute.InputContext(
            num_input_pipelines=hosts,
            input_pipeline_id=host,
            num_replicas_in_sync=strategy.num_replicas_in_sync,
        )
    dataset = build_dataset(*args, **kwargs)
    if not isinstance(strategy, tf.distribute.OneDeviceStrategy):
        return dataset
    (name,) = strategy.extended.worker_devices
    device = tf.DeviceSpec.from_string(name)
    if (device.device_type, device.device_index) == ("CPU", 0):
        return dataset
    # Copied to the device while it computes the previous step. The options of a
    # dataset do not apply to its copy.
    prefetch = tf.data.experimental.prefetch_to_device(name, _PREFETCHED)
    return inputs.without_autotuning(dataset.apply(prefetch))


def take(strategy: tf.distribute.Strategy, iterator: Any) -> Any:
    """Takes the next batch of each replica of this process.

    Args:
      strategy: The strategy.
      iterator: Of a dataset of `build`, or of one that TensorFlow distributes.

    Returns:
      An argument of `strategy.run`.
    """
    is_single = strategy.num_replicas_in_sync == 1
    if is_single or isinstance(iterator, tf.distribute.DistributedIterator):
        return next(iterator)
    replicas = strategies.count_local_replicas(strategy)
    batches = [next(iterator) for _ in range(replicas)]

    def take_batch() -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return batches[int(tf.get_static_value(replica)) % replicas]

    return strategy.run(take_batch)
