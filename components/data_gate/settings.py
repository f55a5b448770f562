"""The settings of DataGate."""

from __future__ import annotations

from typing import Any

from contracts.section import Settings
from contracts.settings.data_gate import DataGateConfig
from contracts.settings.run_settings import RunSettings
from contracts.settings.slices import SliceSettings


class DataGateSettings(Settings):
    """The settings that are fixed when the pipeline is compiled.

    Attributes:
      run: The task, and the split that thresholds apply to.
      limits: The limits for refusals and warnings.
      slices: The columns that the evaluation is sliced by, and their thresholds.
      vocab_file: One token a line. Its encoder's settings are next to it.
      vocab_fingerprint: Hash of both; part of the cache key.
      patterns: The file pattern of each split, relative to the source.
      spans: The number of the span by source, for sources with spans.
      profiles: Directory of the spans' profiles. A span is compared with the previous
        one.
      card: Origin of the rows, which the verdict repeats.
    """

    run: RunSettings
    limits: DataGateConfig
    slices: SliceSettings
    vocab_file: str
    vocab_fingerprint: str
    patterns: dict[str, str]
    spans: dict[str, int]
    profiles: str
    card: dict[str, Any]
