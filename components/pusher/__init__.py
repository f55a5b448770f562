"""Pushes a blessed model to a directory, all at once."""

from components.pusher.component import AtomicPusher

__all__ = ["AtomicPusher"]
