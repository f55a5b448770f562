"""What the clusters of Flink and Spark on this machine share."""

from __future__ import annotations

import contextlib
import signal
import socket
from pathlib import Path

import click
import yaml

from pipeline.beam.job_servers import find_jar
from pipeline.config.beam import BeamConfig, Runner
from pipeline.config.errors import UsageError

# Java 17 closes these packages to Flink and Spark, as in `tools/job_servers.sh`.
OPEN_PACKAGES = tuple(
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in (
        *("java.io", "java.lang", "java.lang.invoke", "java.lang.reflect", "java.net"),
        *("java.nio", "java.text", "java.time", "java.util", "java.util.concurrent"),
        *("java.util.concurrent.atomic", "java.util.concurrent.locks", "sun.net.util"),
        *("sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar"),
    )
)


def find_libraries(runner: Runner) -> list[Path]:
    """Returns the jars that a job server was assembled of.

    Args:
      runner: `flink` or `spark`.

    Raises:
      UsageError: There is no job server, or it is one file.
    """
    jar = Path(find_jar(BeamConfig(runner=runner), is_here=True))
    libraries = sorted(jar.with_suffix("").glob("*.jar"))
    if not libraries:
        raise UsageError(
            f"{jar} holds the classes of {runner} and Beam in one file, but a cluster "
            f"needs those of {runner} alone; remove it and run `make job-servers`"
        )
    return libraries


def free_ports(address: str, count: int) -> list[int]:
    """Returns free ports of a local address."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((address, 0))
        return [probe.getsockname()[1] for probe in probes]


def run_until_interrupted(directory: Path, beam: BeamConfig) -> None:
    """Prints the lines of a recipe that run Beam on a cluster, and waits for Ctrl-C.

    Args:
      directory: Where the cluster's logs are.
      beam: The settings.
    """
    settings = {"beam": beam.model_dump(exclude_defaults=True)}
    click.echo(f"# logs: {directory}\n{yaml.safe_dump(settings)}", nl=False)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()
