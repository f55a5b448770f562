"""The settings of the server."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from serving.batching import BatchingSettings
from serving.limits import RequestLimits
from serving.tls import Tls
from serving.tokens import Token


@dataclasses.dataclass(frozen=True)
class SamplingSettings:
    """Which rows are kept, and where.

    Attributes:
      directory: An existing directory for the files.
      rate: The share of the rows, chosen at random, above 0 and up to 1.
      max_bytes: Maximum bytes of the files. The oldest ones are deleted.
      redact: Gets a row by feature name, and returns the row to keep, or None to keep
        nothing. None keeps rows as they are. It is called in the sampler's thread.
      file_seconds: Maximum time until a row is in a file.
    """

    directory: Path
    rate: float
    max_bytes: int
    redact: Callable[[dict[str, Any]], Mapping[str, Any] | None] | None = None
    file_seconds: float = 60.0


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """Settings of the server.

    Attributes:
      model: A directory of versions, or a model.
      name: The model's name in requests; None for the directory's name.
      host: The address to listen on.
      port: The HTTP port; 0 picks a free one.
      grpc_port: The gRPC port of a server of SavedModels; 0 picks a free one, None
        turns gRPC off.
      batching: Settings of the batcher.
      poll_seconds: Time between scans of the directory.
      keep_versions: How many of the newest versions stay in memory.
      labels: Versions by label, which stay in memory too.
      drain_seconds: Maximum time to finish the requests in flight at shutdown.
      limits: Limits of requests.
      allowed_hosts: Hosts that browsers may use besides the address itself, or `*.` and
        a domain.
      sampling: Which rows are kept; None keeps none.
      check_rate: The share of the rows whose texts are checked, chosen at random; 0
        checks none.
      token: The token that clients must send; None if they need none.
      tls: The certificate; None to serve without encryption.
    """

    model: Path
    name: str | None = None
    host: str = "127.0.0.1"
    port: int = 8501
    grpc_port: int | None = 8500
    batching: BatchingSettings = dataclasses.field(default_factory=BatchingSettings)
    poll_seconds: float = 1.0
    keep_versions: int = 1
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    drain_seconds: float = 30.0
    limits: RequestLimits = dataclasses.field(default_factory=RequestLimits)
    allowed_hosts: tuple[str, ...] = ()
    sampling: SamplingSettings | None = None
    check_rate: float = 0.1
    token: Token | None = None
    tls: Tls | None = None
