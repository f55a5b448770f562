"""Options of several commands."""

from __future__ import annotations

import math
import re
from typing import Any

import click
from pydantic import TypeAdapter

from bert_runtime.arguments import Threads
from contracts.errors import SettingError


class FloatRange(click.FloatRange):
    """A range of numbers, which NaN is not in."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Returns the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def allowed(kind: Any) -> click.ParamType[Any]:
    """Returns the type of an option from the annotation of Python's argument."""
    schema = TypeAdapter(kind).json_schema()
    if "enum" in schema:
        return click.Choice(schema["enum"])
    of_number = click.IntRange if schema["type"] == "integer" else FloatRange
    return of_number(
        schema.get("minimum", schema.get("exclusiveMinimum")),
        schema.get("maximum", schema.get("exclusiveMaximum")),
        min_open="exclusiveMinimum" in schema,
        max_open="exclusiveMaximum" in schema,
    )


HOST = click.option(
    "--host",
    default="127.0.0.1",
    help="Address to listen on; 0.0.0.0 listens on all addresses.",
)
ALLOWED_HOSTS = click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="HOST",
    help="Further host name for HTTP requests, and for pages that send them; "
    "*.example.com allows all subdomains. Repeatable.",
)
INT8 = click.option("--int8", is_flag=True, help="Load the weights in int8.")
THREADS = click.option(
    "--threads",
    type=allowed(Threads),
    help="Threads of ONNX Runtime. Default: one for each core.",
)


def check_host(host: str) -> str:
    """Returns a host of `--allowed-host`.

    Raises:
      UsageError: It is not a host name.
    """
    name = host.removeprefix("*.")
    is_host = re.fullmatch(r"[\w.-]+|\[[0-9a-fA-F:.]+\]", name)
    if host != "*" and not is_host:
        raise SettingError(
            "allowed_hosts",
            host,
            "a host name without scheme and port, such as bert.example.com, or "
            "*.example.com",
        )
    return host
