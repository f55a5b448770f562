"""Pushes a blessed model to a directory atomically."""

from components.pusher.component import COMMITS_FILE, AtomicPusher

__all__ = ["COMMITS_FILE", "AtomicPusher"]
