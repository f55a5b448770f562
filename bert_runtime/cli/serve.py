"""The `serve` command, and the options that each server of this project has."""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bert_runtime.arguments import Port
from bert_runtime.cli.options import (
    ALLOWED_HOSTS,
    HOST,
    INT8,
    THREADS,
    FloatRange,
    allowed,
    check_host,
)
from contracts.errors import SettingError, UsageError

if TYPE_CHECKING:
    from serving.launch import Backend
    from serving.settings import SamplingSettings, ServerSettings

_Decorator = Callable[[Any], Any]

_ADDRESS = (
    click.option(
        "--name", help="Model name in requests. Default: the directory's name."
    ),
    HOST,
    ALLOWED_HOSTS,
    click.option(
        "--port",
        type=allowed(Port),
        default=8501,
        help="HTTP port. 0 picks a free one.",
    ),
)
_OTHERS = (
    click.option(
        "--max-batch-rows",
        type=click.IntRange(1),
        default=64,
        help="Maximum rows of a batch; a larger request is run in pieces.",
    ),
    click.option(
        "--max-batch-tokens",
        type=click.IntRange(1),
        default=4096,
        help="Maximum tokens of a batch, estimated as 4 bytes of text each.",
    ),
    click.option(
        "--batch-timeout-ms",
        type=FloatRange(0),
        default=2.0,
        help="Maximum time that a request waits for others while a batch is running.",
    ),
    click.option(
        "--max-queued-rows",
        type=click.IntRange(1),
        default=4096,
        help="Maximum rows that wait; more are refused with 503.",
    ),
    click.option(
        "--max-queued-mib",
        type=click.IntRange(1),
        default=256,
        help="Maximum MiB of requests in memory; more are refused with 503. A quarter "
        "is reserved for requests below 64 KiB.",
    ),
    click.option(
        "--request-seconds",
        type=FloatRange(0, min_open=True),
        default=60.0,
        help="Time to receive a request, and time to predict; then it is refused with "
        "504. Also the client's time to read the response.",
    ),
    click.option(
        "--max-connections",
        type=click.IntRange(1),
        default=512,
        help="Maximum connections, and calls, of each protocol; at most half of "
        "`ulimit -n`.",
    ),
    click.option(
        "--header-seconds",
        type=FloatRange(0, min_open=True),
        default=10.0,
        help="Time for a connection to send the headers of a request.",
    ),
    click.option("--no-batching", is_flag=True, help="Do not join requests."),
    click.option(
        "--inference-threads",
        type=click.IntRange(1),
        default=2,
        help="Batches that run at the same time.",
    ),
    click.option(
        "--poll-seconds",
        type=FloatRange(0, min_open=True),
        default=1.0,
        help="Time between scans for new versions.",
    ),
    click.option(
        "--keep-versions",
        type=click.IntRange(1),
        default=1,
        help="How many of the newest versions stay loaded.",
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="LABEL=VERSION",
        help="Label of a version, which stays loaded too. Repeatable.",
    ),
    click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        help="File with a token, which clients must send as `Authorization: Bearer "
        "TOKEN`.",
    ),
    click.option(
        "--tls-cert",
        type=click.Path(path_type=Path),
        help="Certificate in PEM, with its intermediate ones, to encrypt connections.",
    ),
    click.option(
        "--tls-key",
        type=click.Path(path_type=Path),
        help="Private key of --tls-cert in PEM, not encrypted.",
    ),
    click.option(
        "--tls-client-ca",
        type=click.Path(path_type=Path),
        help="CA in PEM; every client must have a certificate of it (mutual TLS).",
    ),
    click.option(
        "--drain-seconds",
        type=FloatRange(0),
        default=30.0,
        help="Maximum time to finish requests in flight after SIGTERM or SIGHUP.",
    ),
    click.option(
        "--sample-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Keep a sample of texts and predictions in DIR. Default: keep none.",
    ),
    click.option(
        "--sample-rate",
        type=FloatRange(0, 1, min_open=True),
        default=0.1,
        help="Share of the rows that --sample-dir keeps.",
    ),
    click.option(
        "--sample-mib",
        type=click.IntRange(1),
        default=256,
        help="Maximum MiB in --sample-dir; the oldest files are deleted.",
    ),
    click.option(
        "--redact",
        metavar="MODULE:FUNCTION",
        help="Function that returns the row to keep in --sample-dir, or None.",
    ),
    click.option(
        "--check-rate",
        type=FloatRange(0, 1),
        default=0.1,
        help="Share of the rows whose texts are counted as empty, cut or unreadable, "
        "and their unknown tokens. 0 counts none.",
    ),
)


def server_options(*others: _Decorator) -> _Decorator:
    """Returns a decorator that adds the options of a server to a command.

    Args:
      *others: Further options, which follow `--port`.
    """

    def add(command: Any) -> Any:
        for option in reversed((*_ADDRESS, *others, *_OTHERS)):
            command = option(command)
        return command

    return add


def build_settings(options: dict[str, Any]) -> ServerSettings:
    """Returns the settings of a server, and starts its log.

    Args:
      options: The values of `server_options`, `model`, and values of settings.

    Raises:
      UsageError: A value is refused.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", force=True)
    logging.getLogger("serving").setLevel(logging.INFO)
    from serving import tls, tokens
    from serving.batching import BatchingSettings
    from serving.limits import RequestLimits
    from serving.settings import ServerSettings

    batching = BatchingSettings(
        max_batch_rows=options.pop("max_batch_rows"),
        max_batch_tokens=options.pop("max_batch_tokens"),
        timeout_seconds=options.pop("batch_timeout_ms") / 1000,
        max_queued_rows=options.pop("max_queued_rows"),
        threads=options.pop("inference_threads"),
        joins_requests=not options.pop("no_batching"),
    )
    limits = RequestLimits(
        max_queued_bytes=options.pop("max_queued_mib") << 20,
        request_seconds=options.pop("request_seconds"),
        max_connections=options.pop("max_connections"),
        header_seconds=options.pop("header_seconds"),
    )
    options["sampling"] = _read_sampling(options)
    model = options.pop("model")
    options["allowed_hosts"] = tuple(map(check_host, options["allowed_hosts"]))
    options["labels"] = dict(map(_parse_label, options["labels"]))
    token_file = options.pop("token_file")
    tls_files = [options.pop(f"tls_{name}") for name in ("cert", "key", "client_ca")]
    options["token"] = None if token_file is None else tokens.read(token_file)
    options["tls"] = tls.load(*tls_files)
    # The other options have the names of the settings.
    return ServerSettings(Path(model), batching=batching, limits=limits, **options)


@click.command("serve")
@click.option(
    "--model",
    type=click.Path(),
    required=True,
    metavar="DIR",
    help="Folder of an exported model, or a directory of numbered versions.",
)
@server_options(INT8, THREADS)
def serve_command(int8: bool, threads: int | None, **options: Any) -> None:
    """Serve an exported model over TensorFlow Serving's REST API.

    New versions in DIR are loaded while the server runs. SIGTERM and SIGHUP drain it.
    """
    from contracts.versions.exported_model import PORTABLE_FILE
    from serving import discovery, launch

    discovery.check_local(options["model"])
    settings = build_settings({**options, "grpc_port": None})

    if int8:
        _check_int8(settings.model)
    start = functools.partial(_start, int8, threads)
    launch.serve(settings, start, PORTABLE_FILE)


def _check_int8(model: Path) -> None:
    """Refuses a model whose newest version lacks the weights in int8."""
    from contracts.versions import served_versions
    from contracts.versions.exported_model import PORTABLE_FILE
    from portable import folder
    from serving import discovery

    # Without comparing hashes: that is done when the version is loaded.
    versions = discovery.find_model(model, main_file=PORTABLE_FILE).scan()
    newest = str(versions[max(versions)])
    directory = served_versions.model_directory(newest, PORTABLE_FILE)
    folder.check_weights(directory, folder.INT8_FILE)


def _start(is_int8: bool, threads: int | None) -> Backend:
    from bert_runtime import served_model
    from portable import folder
    from serving.launch import Backend

    gc.freeze()  # full collections need not visit what was imported
    file = folder.INT8_FILE if is_int8 else folder.ONNX_FILE
    return Backend(functools.partial(served_model.load, file=file, threads=threads))


def _parse_label(text: str) -> tuple[str, int]:
    from contracts.versions import served_versions

    label, _, version = text.rpartition("=")
    if not label or not served_versions.is_version(version):
        allowed = "LABEL=VERSION, such as stable=1700000000"
        raise SettingError("labels", text, allowed)
    return label, int(version)


def _read_sampling(options: dict[str, Any]) -> SamplingSettings | None:
    """Removes the options of the sample, and returns its settings; None if it is off.

    Raises:
      UsageError: The directory cannot be created, or the function cannot be imported.
    """
    from contracts.redaction import import_function
    from serving.settings import SamplingSettings

    directory, redact = options.pop("sample_dir"), options.pop("redact")
    rate, mib = options.pop("sample_rate"), options.pop("sample_mib")
    if directory is None:
        if redact is not None:
            raise UsageError(
                "redact",
                "no rows are kept",
                advice="add `sample_dir=DIR`",
                name="E-redact-not-allowed",
            )
        return None
    hook = None if redact is None else import_function(redact)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            "sample_dir",
            f"{directory} cannot be created: {error.strerror}",
            advice="name another directory",
            name="E-storage-failed",
        ) from error
    return SamplingSettings(directory, rate, mib << 20, hook)
