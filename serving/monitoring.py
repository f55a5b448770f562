"""The server's Prometheus metrics."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import Iterator

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram
from starlette.requests import ClientDisconnect

from serving.errors import Code, RequestError

REST = "REST"
GRPC = "gRPC"
_SECONDS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)
_COUNTS = tuple(2**power for power in range(14))


@dataclasses.dataclass
class Call:
    """Labels of a request that are known only while it is processed.

    Attributes:
      signature: The signature, once it is known to exist: a name that a client makes up
        must not become a time series.
    """

    signature: str = ""


class Metrics:
    """The server's metrics, in their own registry.

    Attributes:
      registry: The Prometheus registry.
      in_flight: Requests that were received and have no complete response.
      queued_rows: Rows that wait for a thread.
      batch_rows: Rows per batch.
      batch_tokens: Estimated tokens per batch.
      inference_seconds: The model's time per batch.
      loaded_versions: Versions in memory.
      loads: Version loads, by result: `ok` or `error`.
      load_seconds: Time to load and warm up, by version.
      refused_connections: HTTP connections refused at `--max-connections`.
      abstained_rows: Rows that got no class, because that of the predicted class is
        below `min_probability`.
      model_age_seconds: Time since a version was pushed, by version.
      samples: Sampled rows, by result.
      checked_texts: Texts that were checked, by column.
      text_faults: Faults of checked texts, by column and fault.
      checked_tokens: Tokens of checked texts that the model sees, by column.
      unknown_tokens: Those of them that the vocabulary lacks, by column.
      unchecked_texts: Texts that should have been checked, by reason.
    """

    def __init__(self) -> None:
        self.registry = registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=registry)
        self.in_flight = 0
        self._requests = Counter(
            "serving_requests",
            "Requests, by status.",
            ("transport", "api", "signature", "code"),
            registry=registry,
        )
        self._seconds = Histogram(
            "serving_request_seconds",
            "Time from a request's last byte to its response.",
            ("transport", "api"),
            buckets=_SECONDS,
            registry=registry,
        )
        Gauge(
            "serving_requests_in_flight", "Requests in flight.", registry=registry
        ).set_function(lambda: self.in_flight)
        self.queued_rows = Gauge(
            "serving_queued_rows", "Rows that wait for a thread.", registry=registry
        )
        self.batch_rows = Histogram(
            "serving_batch_rows", "Rows per batch.", buckets=_COUNTS, registry=registry
        )
        self.batch_tokens = Histogram(
            "serving_batch_tokens",
            "Estimated tokens per batch.",
            buckets=_COUNTS,
            registry=registry,
        )
        self.inference_seconds = Histogram(
            "serving_inference_seconds",
            "The model's time per batch.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.loaded_versions = Gauge(
            "serving_loaded_versions", "Versions in memory.", registry=registry
        )
        self.loads = Counter(
            "serving_loads", "Version loads, by result.", ("result",), registry=registry
        )
        # From 0, so that Prometheus sees the first one as an increase.
        for result in ("ok", "error"):
            self.loads.labels(result)
        self.load_seconds = Gauge(
            "serving_load_seconds",
            "Time to load and warm up a version.",
            ("version",),
            registry=registry,
        )
        self.refused_connections = Counter(
            "serving_refused_connections",
            "HTTP connections refused at --max-connections.",
            registry=registry,
        )
        self.abstained_rows = Counter(
            "serving_abstained_rows",
            "Rows whose predicted class has a probability below min_probability.",
            registry=registry,
        )
        self.model_age_seconds = Gauge(
            "serving_model_age_seconds",
            "Time since a loaded version was pushed.",
            ("version",),
            registry=registry,
        )
        self.samples = Counter(
            "serving_samples",
            "Rows that were sampled, by result.",
            ("result",),
            registry=registry,
        )
        self.checked_texts = Counter(
            "serving_checked_texts",
            "Texts of requests that were checked.",
            ("column",),
            registry=registry,
        )
        self.text_faults = Counter(
            "serving_text_faults",
            "Checked texts that are empty, cut or unreadable.",
            ("column", "fault"),
            registry=registry,
        )
        self.checked_tokens = Counter(
            "serving_checked_tokens",
            "Tokens of checked texts that the model sees.",
            ("column",),
            registry=registry,
        )
        self.unknown_tokens = Counter(
            "serving_unknown_tokens",
            "Tokens of checked texts that are [UNK].",
            ("column",),
            registry=registry,
        )
        self.unchecked_texts = Counter(
            "serving_unchecked_texts",
            "Texts that were chosen to be checked and were not, by reason.",
            ("reason",),
            registry=registry,
        )

    @contextlib.contextmanager
    def call(self, transport: str, api: str) -> Iterator[Call]:
        """Counts a request with its time and the status of its response.

        Args:
          transport: `REST` or `GRPC`.
          api: The API, such as `predict`.
        """
        call, code = Call(), Code.OK
        start = time.perf_counter()
        self.in_flight += 1
        try:
            yield call
        except RequestError as error:
            code = error.code
            raise
        except (asyncio.CancelledError, ClientDisconnect):
            code = Code.CANCELLED
            raise
        except BaseException:
            code = Code.INTERNAL
            raise
        finally:
            self.in_flight -= 1
            seconds = time.perf_counter() - start
            self._seconds.labels(transport, api).observe(seconds)
            if transport == GRPC or code is Code.CANCELLED:
                label = code.name
            else:
                label = str(code.http_status)
            self._requests.labels(transport, api, call.signature, label).inc()

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry)
