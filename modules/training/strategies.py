"""The distribution strategy of a training."""

from __future__ import annotations

import socket
import urllib.parse
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from official.common import distribute_utils

from contracts.errors import SettingError
from contracts.settings import cluster

_TPU_SECONDS = 10


def choose_strategy(name: str, tpu: str) -> tf.distribute.Strategy:
    """Returns the distribution strategy of the settings.

    `auto` selects parameter servers or several workers if `TF_CONFIG` names them, else
    a TPU, else all GPUs if there are several, else one device.

    Raises:
      UsageError: `TF_CONFIG` has another form, or names no cluster for the strategy.
      ValueError: The TPU is unavailable.
    """
    selected = cluster.select_strategy(name)
    if selected is None:
        cluster.ignore()
        selected = _detect() if name == "auto" else name
    return _connect_tpu(tpu) if selected == "tpu" else _build(selected)


def check_batches(strategy: tf.distribute.Strategy, **sizes: int | None) -> None:
    """Checks that the replicas can share the global batches.

    Args:
      strategy: The distribution strategy.
      **sizes: Rows of a batch by the name of the setting in `trainer`.

    Raises:
      ValueError: The size of a batch is not a multiple of their number.
    """
    replicas = strategy.num_replicas_in_sync
    for setting, size in sizes.items():
        if size is not None and size % replicas:
            raise ValueError(
                f"trainer.{setting} is {size}, over all replicas; "
                f"{type(strategy).__name__} has {replicas}, so use a multiple of "
                f"{replicas}"
            )


def refuse_several_processes(strategy: tf.distribute.Strategy, user: str) -> None:
    """Refuses strategies that train in several processes at once.

    Args:
      strategy: The distribution strategy.
      user: The setting that needs a single process.

    Raises:
      UsageError: The strategy is such a one.
    """
    several = (
        tf.distribute.MultiWorkerMirroredStrategy,
        tf.distribute.experimental.ParameterServerStrategy,
    )
    if isinstance(strategy, several):
        raise SettingError(
            "trainer.strategy",
            f"{type(strategy).__name__}; {user} works in one process",
            "one_device, mirrored or tpu",
            f"or leave `{user}` out",
        )


def serve_coordinator() -> None:
    """Runs a worker or parameter server of a `TF_CONFIG` with parameter servers.

    It does not return there; in any other process it returns at once.
    """
    if "ps" not in cluster.read_cluster():
        return
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol=resolver.rpc_layer or "grpc",
        ).join()


def worker_count() -> int:
    """Returns the number of workers that `TF_CONFIG` names."""
    return len(cluster.read_cluster().get("worker", []))


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether this process writes the checkpoints and summaries."""
    return bool(strategy.extended.should_checkpoint)


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether the strategy runs on a TPU, which compiles every shape."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def is_mirrored(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether several CPUs or GPUs, on any machines, have the same weights."""
    mirrored = (
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
    )
    return isinstance(strategy, mirrored) and strategy.num_replicas_in_sync > 1


def count_local_replicas(strategy: tf.distribute.Strategy) -> int:
    """Returns the number of replicas of this process."""
    return len(strategy.extended.worker_devices)


def find_host(strategy: tf.distribute.Strategy) -> tuple[int, int]:
    """Returns the index of this worker and their number.

    Any strategy but `MultiWorkerMirroredStrategy` has one process that builds inputs.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return 0, 1
    local = count_local_replicas(strategy)
    hosts = strategy.num_replicas_in_sync // local
    replicas = strategy.run(
        lambda: tf.distribute.get_replica_context().replica_id_in_sync_group
    )
    (first, *_) = strategy.experimental_local_results(replicas)
    return int(first) // local, hosts


def sum_over_hosts(
    strategy: tf.distribute.Strategy,
    values: Sequence[float],
    dtype: tf.DType = tf.int64,
) -> list[Any]:
    """Returns the sums of the hosts' values; call it in the process of every host.

    Args:
      strategy: The strategy, with the same number of replicas on every host.
      values: Of this host, as many as on the others.
      dtype: Their type; the sums are of the same.
    """
    local = count_local_replicas(strategy)
    # A tensor of its own in each replica: TensorFlow would sum a shared one once.
    by_replica = strategy.run(lambda: tf.constant(values, dtype))
    sums = strategy.reduce("SUM", by_replica, axis=None).numpy()
    return (sums // local if dtype.is_integer else sums / local).tolist()


def is_asynchronous(strategy: tf.distribute.Strategy) -> bool:
    """Returns whether workers train independently, with parameters on servers."""
    return isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy)


def _detect() -> str:
    """Returns the strategy of one process by its devices."""
    if tf.config.list_physical_devices("TPU"):
        return "tpu"
    return (
        "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one_device"
    )


def _build(name: str) -> tf.distribute.Strategy:
    gpus = len(tf.config.list_physical_devices("GPU"))
    # `distribute_utils` would use only one CPU device.
    if name == "mirrored" and not gpus:
        devices = [device.name for device in tf.config.list_logical_devices("CPU")]
        return tf.distribute.MirroredStrategy(devices)
    return distribute_utils.get_distribution_strategy(
        name, num_gpus=min(gpus, 1) if name == "one_device" else gpus
    )


def _connect_tpu(address: str) -> tf.distribute.Strategy:
    url = urllib.parse.urlsplit(address)
    try:
        if url.hostname and url.port:
            # TensorFlow waits for an unreachable address without a timeout.
            connection = (url.hostname, url.port)
            socket.create_connection(connection, _TPU_SECONDS).close()
        return distribute_utils.get_distribution_strategy("tpu", tpu_address=address)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"trainer.strategy is tpu, but trainer.tpu {address!r} cannot be used: "
            f"{str(error)[:200]}; set it to a TPU's name or grpc://HOST:PORT, or "
            "choose another strategy"
        ) from error
