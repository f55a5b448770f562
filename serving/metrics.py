"""What Prometheus is told."""

from __future__ import annotations

import time
from types import TracebackType

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)
_ROWS = tuple(2**power for power in range(13))


class Metrics:
    """The server's counters, in a registry of their own.

    Attributes:
      in_flight: Requests at work.
      queued_rows: Rows that wait for a thread.
      batch_rows: Rows that were run at once.
      inference_seconds: How long TensorFlow took for a batch.
      loaded_versions: Versions in memory.
      loads: Versions that were loaded, by result: `ok` or `error`.
      load_seconds: How long loading and warming up took, by version.
      refused_connections: HTTP connections refused at `--max-connections`.
    """

    def __init__(self) -> None:
        self.registry = registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        self._requests = Counter(
            "serving_requests",
            "Requests answered, by what with.",
            ("transport", "api", "signature", "code"),
            registry=registry,
        )
        self._seconds = Histogram(
            "serving_request_seconds",
            "From a request's last byte to its answer.",
            ("transport", "api"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.in_flight = 0
        in_flight = Gauge(
            "serving_requests_in_flight", "Requests at work.", registry=registry
        )
        in_flight.set_function(lambda: self.in_flight)
        self.queued_rows = Gauge(
            "serving_queued_rows", "Rows that wait for a thread.", registry=registry
        )
        self.batch_rows = Histogram(
            "serving_batch_rows",
            "Rows that were run at once.",
            buckets=_ROWS,
            registry=registry,
        )
        self.inference_seconds = Histogram(
            "serving_inference_seconds",
            "How long TensorFlow took for a batch.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.loaded_versions = Gauge(
            "serving_loaded_versions", "Versions in memory.", registry=registry
        )
        self.loads = Counter(
            "serving_loads",
            "Versions loaded, by result.",
            ("result",),
            registry=registry,
        )
        self.load_seconds = Gauge(
            "serving_load_seconds",
            "How long loading and warming up a version took.",
            ("version",),
            registry=registry,
        )
        self.refused_connections = Counter(
            "serving_refused_connections",
            "HTTP connections refused at --max-connections.",
            registry=registry,
        )

    def call(self, transport: str, api: str) -> Call:
        """Returns a context that counts a request.

        Args:
          transport: `REST` or `gRPC`.
          api: What is asked, as `predict`.
        """
        return Call(self, transport, api)

    def count(self, call: Call, seconds: float) -> None:
        """Counts a request that was answered."""
        self._seconds.labels(call.transport, call.api).observe(seconds)
        self._requests.labels(call.transport, call.api, call.signature, call.code).inc()

    def text(self) -> bytes:
        """Returns everything in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry)


class Call:
    """A request that is counted when it is answered.

    Attributes:
      transport: `REST` or `gRPC`.
      api: What is asked, as `predict`.
      signature: The signature asked, once it is known to exist: what a client makes
        up must not become a time series.
      code: What was answered: a status of HTTP, or the name of one of gRPC.
    """

    def __init__(self, metrics: Metrics, transport: str, api: str) -> None:
        self._metrics = metrics
        self.transport = transport
        self.api = api
        self.signature = ""
        self.code = "CANCELLED"

    def __enter__(self) -> Call:
        """Starts the clock."""
        self._start = time.perf_counter()
        self._metrics.in_flight += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Counts the request."""
        self._metrics.in_flight -= 1
        self._metrics.count(self, time.perf_counter() - self._start)
