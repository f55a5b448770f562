"""Seeds of dropout masks that follow from the training step.

TensorFlow cannot save the state of its random operations. With them, a resumed training
would drop out other units than an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
from collections.abc import Callable, Iterator

import tensorflow as tf

_next_seed: contextvars.ContextVar[Callable[[], tf.Tensor] | None] = (
    contextvars.ContextVar("next_seed", default=None)
)


@contextlib.contextmanager
def seeds_at_step(seed: int, step: tf.Variable) -> Iterator[None]:
    """Derives the seeds drawn in the context from a seed, the step and the replica.

    Args:
      seed: Seed of the training.
      step: Steps taken so far, int64[].
    """
    base = tf.random.stateless_uniform(
        [2],
        seed=tf.stack([tf.constant(seed, tf.int64), tf.cast(step, tf.int64)]),
        minval=None,
        maxval=None,
        dtype=tf.int64,
    )
    with seeds_from(base):
        yield


@contextlib.contextmanager
def seeds_from(base: tf.Tensor) -> Iterator[None]:
    """Derives the seeds drawn in the context from another seed and the replica."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    # Numbers the layers as they are traced, always in the same order.
    layers = itertools.count()

    def next_seed() -> tf.Tensor:
        layer = tf.constant(next(layers), tf.int64)
        return base + tf.stack([layer, tf.cast(replica, tf.int64)])

    token = _next_seed.set(next_seed)
    try:
        yield
    finally:
        _next_seed.reset(token)


def draw_seed() -> tf.Tensor:
    """Returns a seed for a stateless random operation, int[2].

    Outside of `seeds_at_step` the seed follows from TensorFlow's global seed.
    """
    next_seed = _next_seed.get()
    if next_seed is not None:
        return next_seed()
    return tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
