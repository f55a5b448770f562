"""Common functions of the Flink and Spark clusters on this machine."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import click
import yaml

from contracts.errors import UsageError
from pipeline.beam.job_servers import artifact_of, assembled
from pipeline.config.beam import BeamConfig, Runner
from pipeline.config.paths import JOB_SERVERS


def find_libraries(runner: Runner) -> list[Path]:
    """Returns the jars that a job server was assembled from.

    Raises:
      UsageError: The job server was not assembled, or Java is missing.
    """
    return sorted(_find_job_server(runner).with_suffix("").glob("*.jar"))


def open_packages(runner: Runner) -> list[str]:
    """Returns the options that open Java's packages as a job server's manifest does."""
    with zipfile.ZipFile(_find_job_server(runner)) as jar:
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    lines = manifest.replace("\r\n ", "").splitlines()
    (packages,) = (line for line in lines if line.startswith("Add-Opens: "))
    return [f"--add-opens={name}=ALL-UNNAMED" for name in packages.split()[1:]]


def _find_job_server(runner: Runner) -> Path:
    jars = assembled(artifact_of(BeamConfig(runner=runner)))
    if not jars or shutil.which("java") is None:
        raise UsageError(
            str(JOB_SERVERS),
            f"no jars of {runner}, or no java on the PATH",
            advice="run `make job-servers`, and install Java 11 or 17",
            name="E-job-server-not-found",
        )
    return jars[0]


def request(url: str) -> Any:
    """Returns the JSON that a cluster responds with.

    Raises:
      OSError: The cluster does not respond.
    """
    with urllib.request.urlopen(url, timeout=5.0) as response:
        return json.load(response)


def free_ports(address: str, count: int) -> list[int]:
    """Returns free ports of a local address."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((address, 0))
        return [probe.getsockname()[1] for probe in probes]


def run_until_interrupted(directory: Path, beam: BeamConfig) -> None:
    """Prints the settings that run Beam on a cluster, and waits for Ctrl-C."""
    settings = {"beam": beam.model_dump(exclude_defaults=True)}
    with contextlib.suppress(KeyboardInterrupt):  # it may come right after the text
        click.echo(f"# logs: {directory}\n{yaml.safe_dump(settings)}", nl=False)
        signal.pause()
