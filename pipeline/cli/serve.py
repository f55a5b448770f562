"""The `serve` command."""

from __future__ import annotations

import sys
from typing import Any

import click

from bert_runtime.arguments import Port
from bert_runtime.cli.options import allowed
from bert_runtime.cli.serve import build_settings, server_options
from modules import environment
from pipeline.api.arguments import check_model


@click.command("serve")
@click.option(
    "--model",
    type=click.Path(),
    required=True,
    metavar="DIR",
    help="Directory of numbered versions, where a run pushes, or a SavedModel.",
)
@server_options(
    click.option(
        "--grpc-port",
        type=allowed(Port),
        default=8500,
        help="gRPC port. 0 picks a free one.",
    ),
    click.option("--no-grpc", is_flag=True, help="Serve HTTP only."),
    # Of `pipeline.api.server`, whose process holds the other end of a pipe.
    click.option("--end-with-stdin", is_flag=True, hidden=True),
)
def serve_command(**options: Any) -> None:
    """Serve a model over TensorFlow Serving's REST and gRPC APIs.

    New versions in DIR are loaded while the server runs. SIGTERM and SIGHUP drain it.
    """
    environment.set_up(quiet=True)
    from serving.saved_models import launch

    if options.pop("no_grpc"):
        options["grpc_port"] = None
    parent = sys.stdin.fileno() if options.pop("end_with_stdin") else None
    check_model(options["model"])
    launch.serve(build_settings(options), parent)
