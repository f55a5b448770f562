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
    return isinstance(strategy, supported) and not strategies.is_tpu(strategy)


def build(
    strategy: tf.distribute.Strategy, build: BuildDataset, *args: Any, **kwargs: Any
) -> tf.data.Dataset:
    """Builds the batches of this process, one for each of its replicas in turn.

    The replicas of a step must get a batch each: the number of batches must be a
    multiple of theirs, and the same on all hosts.

    Args:
      strategy: The strategy, which must be supported.
      build: Returns the dataset. If it has an argument `input_context`, it receives the
        `tf.distribute.InputContext` of this process.
      *args: Its arguments.
      **kwargs: Its keyword arguments.
    """
    if "input_context" in inspect.signature(build).parameters:
        host, hosts = strategies.find_host(strategy)
        kwargs["input_context"] = tf.distribute.InputContext(
            num_input_pipelines=hosts,
            input_pipeline_id=host,
            num_replicas_in_sync=strategy.num_replicas_in_sync,
        )
    dataset = build(*args, **kwargs)
    devices = [
        tf.DeviceSpec.from_string(name) for name in strategy.extended.worker_devices
    ]
    is_host = (devices[0].device_type, devices[0].device_index) == ("CPU", 0)
    if len(devices) > 1 or is_host:
        return dataset
    # Copied to the device while it computes the step before.
    return dataset.apply(
        tf.data.experimental.prefetch_to_device(devices[0].to_string(), _PREFETCHED)
    )


def take(strategy: tf.distribute.Strategy, iterator: Any) -> Any:
    """Takes the next batch of each replica of this process.

    Args:
      strategy: The strategy.
      iterator: Of a dataset of `build`, or of one that TensorFlow distributes.

    Returns:
      What `strategy.run` takes as an argument.
    """
    is_single = strategy.num_replicas_in_sync == 1
    if is_single or isinstance(iterator, tf.distribute.DistributedIterator):
        return next(iterator)
    replicas = strategies.count_local_replicas(strategy)
    batches = [next(iterator) for _ in range(replicas)]

    def take_own() -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return batches[int(tf.get_static_value(replica)) % replicas]

    return strategy.run(take_own)
