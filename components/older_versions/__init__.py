"""Measures older pushed versions on the rows of a run: how the model ages."""

from components.older_versions.component import OlderVersions, read_ages

__all__ = ["OlderVersions", "read_ages"]
