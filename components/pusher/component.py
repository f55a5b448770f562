"""AtomicPusher: TFX's Pusher for directories that a model server watches."""

from __future__ import annotations

from tfx import v1 as tfx
from tfx.dsl.components.base import executor_spec

from components.pusher.driver import Driver
from components.pusher.executor import Executor


class AtomicPusher(tfx.components.Pusher):
    """Pushes to a filesystem; TFX's own Pusher copies into the live directory.

    Inputs, outputs and parameters are those of `tfx.components.Pusher`. A model appears
    under its version number completely or not at all; earlier versions stay.
    """

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)
    DRIVER_CLASS = Driver
