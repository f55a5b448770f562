"""Pushes a blessed model to a directory atomically."""

from components.pusher.component import AtomicPusher

__all__ = ["AtomicPusher"]
