"""The report of ServingCheck."""

from __future__ import annotations

import pydantic

from contracts.records import RecordFile


class ServingReport(RecordFile, frozen=True):
    """The result of ServingCheck.

    Attributes:
      reasons: Why the model is not blessed; empty if it is blessed.
      rows: Number of compared rows.
      max_skew: Largest difference from the expected values by signature, relative for
        values above 1; None if nothing was compared.
      latency_ms: `p50` and `p99` of a request with one row, in milliseconds; None if
        the model failed before.
      rows_per_second: Throughput of one request with all rows that are sent as text;
        None if the model failed before.
      load_seconds: Time to load the model; None if the model failed before.
      peak_memory_bytes: Highest resident memory, TensorFlow included.
      tf_serving_version: The TensorFlow Serving version of the request.
      text_version: The tensorflow-text version in that TensorFlow Serving.
    """

    FILE = "serving_check.json"

    reasons: list[str]
    rows: int
    max_skew: dict[str, float | None]
    latency_ms: dict[str, float] | None
    rows_per_second: float | None
    load_seconds: float | None
    peak_memory_bytes: int
    tf_serving_version: str
    text_version: str

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def blessed(self) -> bool:
        """Whether the model may be served."""
        return not self.reasons
