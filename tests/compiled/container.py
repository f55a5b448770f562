"""A container to run as a process, and the connection to a worker that runs it."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any, TextIO

from pipeline.config.paths import REPOSITORY

# Linux refuses a longer argument (MAX_ARG_STRLEN of 128 KiB includes the final zero).
# A fork would not notice, a real container would not start.
LONGEST_ARGUMENT = 128 * 1024 - 1


@dataclasses.dataclass(frozen=True)
class Container:
    """A container to run as a process.

    Attributes:
      command: Its command line.
      image: Environment variables of its image.
      variables: Environment variables of its spec.
      directory: Its working directory.
      log: File that its standard output and error are appended to.
      custom_jobs: Directory of the stand-in for Vertex's custom jobs; None without it.
      executor_input: For Kubeflow's launcher; None without a launcher.
      output: File that the launcher copies the ExecutorOutput to.
    """

    command: list[str]
    image: dict[str, str]
    variables: dict[str, str]
    directory: str
    log: str
    custom_jobs: str | None = None
    executor_input: dict[str, Any] | None = None
    output: str = ""

    def __post_init__(self) -> None:
        for argument in self.command:
            if len(argument.encode()) > LONGEST_ARGUMENT:
                raise ValueError(
                    f"an argument of {len(argument.encode())} bytes, starting with "
                    f"{argument[:60]!r}: no process can be started with one longer "
                    f"than {LONGEST_ARGUMENT}"
                )


class WorkerConnection:
    """A connection to a worker; its containers can write to `exchange`."""

    def __init__(
        self, requests: TextIO, exit_codes: TextIO, exchange: Path | None = None
    ) -> None:
        self._requests = requests
        self._exit_codes = exit_codes
        self.exchange = exchange

    def run(self, container: Container) -> int:
        """Runs a container and returns its exit code."""
        print(
            json.dumps(dataclasses.asdict(container)), file=self._requests, flush=True
        )
        code = self._exit_codes.readline()
        if not code:
            raise RuntimeError(f"the worker ended while it ran {container.command}")
        return int(code)


def image_environment(home: Path) -> dict[str, str]:
    """Returns the environment of our image, without this process's variables."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TF_USE_LEGACY_KERAS": "1",
        # The image has the project installed.
        "PYTHONPATH": str(REPOSITORY),
    }
