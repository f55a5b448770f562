"""The command that serves a model."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import click

from modules import environment
from pipeline.config.errors import UsageError


@click.command("serve")
@click.option(
    "--model",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="A directory of numbered versions, as a run pushes to, or a SavedModel.",
)
@click.option("--name", help="The model's name in requests; the directory's.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 is every one of this machine.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="HOST",
    help="A further host name that HTTP requests and browsers' pages may have; "
    "*.example.com is every subdomain. May be repeated.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8501,
    show_default=True,
    help="Of HTTP; 0 takes a free one.",
)
@click.option(
    "--grpc-port",
    type=click.IntRange(0, 65535),
    default=8500,
    show_default=True,
    help="Of gRPC; 0 takes a free one.",
)
@click.option("--no-grpc", is_flag=True, help="HTTP alone.")
@click.option(
    "--max-batch-rows",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Rows that are run at once, at most; larger requests are run in pieces.",
)
@click.option(
    "--batch-timeout-ms",
    type=click.FloatRange(0),
    default=2.0,
    show_default=True,
    help="How long a request waits for others while some are being answered.",
)
@click.option(
    "--max-queued-rows",
    type=click.IntRange(1),
    default=4096,
    show_default=True,
    help="Rows that wait; more are refused with 503.",
)
@click.option(
    "--max-queued-mib",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    help="MiB of requests in memory at once; more are refused with 503. A quarter "
    "is for requests below 64 KiB.",
)
@click.option(
    "--request-seconds",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Time to receive a request, and to predict; then it is refused with 504. "
    "Also time for the client to read the response.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    help="HTTP connections, gRPC connections and gRPC calls at once; at most half of "
    "`ulimit -n`.",
)
@click.option(
    "--header-seconds",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="Time that a connection has to send the headers of a request.",
)
@click.option("--no-batching", is_flag=True, help="Run each request alone.")
@click.option(
    "--inference-threads",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Batches that are run at the same time.",
)
@click.option(
    "--poll-seconds",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="How often to look for new versions.",
)
@click.option(
    "--keep-versions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many of the newest versions stay loaded.",
)
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="LABEL=VERSION",
    help="A name for a version, which stays loaded too. May be repeated.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="How long to wait for requests in flight after SIGTERM.",
)
def serve_command(
    model: Path,
    name: str | None,
    host: str,
    allowed_hosts: tuple[str, ...],
    port: int,
    grpc_port: int,
    no_grpc: bool,
    max_batch_rows: int,
    batch_timeout_ms: float,
    max_queued_rows: int,
    max_queued_mib: int,
    request_seconds: float,
    max_connections: int,
    header_seconds: float,
    no_batching: bool,
    inference_threads: int,
    poll_seconds: float,
    keep_versions: int,
    labels: tuple[str, ...],
    drain_seconds: float,
) -> None:
    """Serve a model over TensorFlow Serving's REST API and gRPC.

    New versions in DIR are taken up while it runs. SIGTERM drains it.
    """
    environment.set_up(quiet=True)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("serving").setLevel(logging.INFO)
    from serving import server
    from serving.errors import SettingsError

    settings = server.ServerSettings(
        model=model,
        name=name,
        host=host,
        allowed_hosts=tuple(map(_check_host, allowed_hosts)),
        port=port,
        grpc_port=None if no_grpc else grpc_port,
        batching=server.BatchingSettings(
            max_batch_rows=max_batch_rows,
            timeout_seconds=batch_timeout_ms / 1000,
            max_queued_rows=max_queued_rows,
            threads=inference_threads,
            joins_requests=not no_batching,
        ),
        limits=server.RequestLimits(
            max_queued_bytes=max_queued_mib << 20,
            request_seconds=request_seconds,
            max_connections=max_connections,
            header_seconds=header_seconds,
        ),
        poll_seconds=poll_seconds,
        keep_versions=keep_versions,
        labels=dict(map(_parse_label, labels)),
        drain_seconds=drain_seconds,
    )
    try:
        server.serve(settings)
    except SettingsError as error:
        raise UsageError(str(error)) from error


def _parse_label(text: str) -> tuple[str, int]:
    label, _, version = text.rpartition("=")
    if not label or not (version.isascii() and version.isdigit()):
        raise UsageError(
            f"--label {text}: write it as LABEL=VERSION, as stable=1700000000"
        )
    return label, int(version)


def _check_host(host: str) -> str:
    name = host.removeprefix("*.")
    is_host = re.fullmatch(r"[\w.-]+|\[[0-9a-fA-F:.]+\]", name)
    if host != "*" and not is_host:
        raise UsageError(
            f"--allowed-host {host}: give a host name without scheme and port, as "
            "bert.example.com, or *. and a domain"
        )
    return host
