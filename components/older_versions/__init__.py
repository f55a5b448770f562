"""Measures older pushed versions on the rows of a run: how the model ages."""

from components.older_versions.component import OlderVersions
from components.older_versions.settings import OlderVersionsSettings

__all__ = ["OlderVersions", "OlderVersionsSettings"]
