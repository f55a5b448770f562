"""Measures older pushed versions on the rows of a run: how the model ages."""

from components.older_versions.component import OlderVersions

__all__ = ["OlderVersions"]
