"""Where training runs: the distribution strategy and the type it computes in."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import urllib.parse
from collections.abc import Iterator

import tensorflow as tf
import tf_keras
from official.common import distribute_utils
from official.modeling import performance

from modules.config.trainer import TrainerConfig

_TPU_SECONDS = 10
_DTYPES = {"float32": tf.float32, "bfloat16": tf.bfloat16, "float16": tf.float16}


def choose_strategy(config: TrainerConfig) -> tf.distribute.Strategy:
    """Returns the distribution strategy of the settings, or of what there is.

    `auto` takes parameter servers or several workers where `TF_CONFIG` names them,
    else a TPU, else several GPUs, else one device.

    Args:
      config: `strategy` names it, `tpu` the TPU.

    Raises:
      ValueError: The strategy needs a cluster that `TF_CONFIG` does not name, or the
        global batch cannot be shared out among its replicas.
    """
    name = _find() if config.strategy == "auto" else config.strategy
    if name in ("multi_worker_mirrored", "parameter_server") and not _cluster():
        raise ValueError(
            f"trainer.strategy is {name}, but the environment variable TF_CONFIG names "
            "no cluster; start the processes with one, or take another strategy"
        )
    strategy = _connect_tpu(config.tpu) if name == "tpu" else _build(name)
    check_batch(config.batch_size, strategy)
    return strategy


def serve_coordinator() -> None:
    """Serves the coordinator of parameter servers, and does not return.

    Does nothing in a process that `TF_CONFIG` calls neither a worker of parameter
    servers nor one of them.
    """
    if "ps" not in _cluster():
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
    return len(_cluster().get("worker", []))


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether this process writes what all of them share."""
    return bool(strategy.extended.should_checkpoint)


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether the strategy computes on TPU, which compiles every shape."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def is_asynchronous(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether workers train on their own, with parameters on servers."""
    return isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy)


def is_multi_process(strategy: tf.distribute.Strategy) -> bool:
    """Tells whether several processes train in step."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def choose_precision(name: str, strategy: tf.distribute.Strategy) -> str:
    """Returns the type to compute in; `auto` is bfloat16 on TPU, else float32."""
    if name != "auto":
        return name
    return "bfloat16" if is_tpu(strategy) else "float32"


@contextlib.contextmanager
def precision(name: str) -> Iterator[None]:
    """Lets models compute in a type for as long as the context is open.

    Their weights stay float32.

    Args:
      name: `float32`, `bfloat16` or `float16`.
    """
    before = tf_keras.mixed_precision.global_policy()
    performance.set_mixed_precision_policy(_DTYPES[name])
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)


def _find() -> str:
    cluster = _cluster()
    if "ps" in cluster:
        return "parameter_server"
    if sum(len(cluster.get(job, [])) for job in ("chief", "worker")) > 1:
        return "multi_worker_mirrored"
    if tf.config.list_physical_devices("TPU"):
        return "tpu"
    return (
        "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one_device"
    )


def _build(name: str) -> tf.distribute.Strategy:
    gpus = len(tf.config.list_physical_devices("GPU"))
    if name == "mirrored" and not gpus:
        devices = [device.name for device in tf.config.list_logical_devices("CPU")]
        return tf.distribute.MirroredStrategy(devices)
    return distribute_utils.get_distribution_strategy(
        name, num_gpus=min(gpus, 1) if name == "one_device" else gpus
    )


def _connect_tpu(address: str) -> tf.distribute.Strategy:
    found = urllib.parse.urlsplit(address)
    try:
        if found.hostname and found.port:
            # TensorFlow waits for an address that does not answer, without an end.
            connection = (found.hostname, found.port)
            socket.create_connection(connection, _TPU_SECONDS).close()
        return distribute_utils.get_distribution_strategy("tpu", tpu_address=address)
    except (OSError, ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"trainer.strategy is tpu, but trainer.tpu {address!r} cannot be used: "
            f"{str(error)[:200]}; give a TPU's name or grpc://HOST:PORT, or take "
            "another strategy"
        ) from error


def _cluster() -> dict[str, list[str]]:
    return json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})


def check_batch(batch_size: int, strategy: tf.distribute.Strategy) -> None:
    """Refuses a global batch that the replicas cannot share.

    Raises:
      ValueError: It is no multiple of their number.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            f"trainer.batch_size is {batch_size}, over all replicas; "
            f"{type(strategy).__name__} has {replicas}, so take a multiple of that"
        )
