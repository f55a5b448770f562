"""A process that has imported TFX once and forks for each container it has to run.

`python -m tests.compiled.worker [--preload]` reads one request a line from its standard
input, JSON of `Container`, and answers each with the exit code of the container.
"""

import atexit
import contextlib
import dataclasses
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from pipeline.config.paths import REPOSITORY

# All that the entry points import, but for themselves: what is run as a module must not
# have been imported before. None of them executes a TensorFlow op or starts a thread
# that a fork would lose.
PRELOADED = (
    "tfx.v1",
    "tfx.components.evaluator.executor",
    "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_entrypoint_utils",
    "google.cloud.aiplatform",
)
# Linux refuses a longer argument (MAX_ARG_STRLEN of 128 KiB holds its final zero too).
# A fork does not notice, a real container would not start.
LONGEST_ARGUMENT = 128 * 1024 - 1

_CONTEXT = multiprocessing.get_context("fork")


@dataclasses.dataclass(frozen=True)
class Container:
    """A container to run as a process.

    Attributes:
      command: Its command line.
      image: The environment its image sets.
      variables: The environment its spec sets besides.
      directory: Its working directory.
      log: File that gets its standard output and error, at the end.
      custom_jobs: Directory of the stand-in for Vertex's custom jobs; None has no
        stand-in.
    """

    command: list[str]
    image: dict[str, str]
    variables: dict[str, str]
    directory: str
    log: str
    custom_jobs: str | None = None

    def __post_init__(self) -> None:
        for argument in self.command:
            if len(argument.encode()) > LONGEST_ARGUMENT:
                raise ValueError(
                    f"an argument of {len(argument.encode())} bytes, starting with "
                    f"{argument[:60]!r}: no process can be started with one longer "
                    f"than {LONGEST_ARGUMENT}"
                )


def serve(requests: TextIO, answers: TextIO) -> None:
    """Runs a container for each line, until there are no more.

    Args:
      requests: `Container`s as JSON.
      answers: Gets the exit code of each; minus the signal where one ended it.
    """
    for line in requests:
        process = _CONTEXT.Process(
            target=_become, args=(Container(**json.loads(line)),)
        )
        process.start()
        process.join()
        print(process.exitcode, file=answers, flush=True)


def _become(container: Container) -> None:
    """Turns this process into the container."""
    log = os.open(container.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.chdir(container.directory)
    os.environ.clear()
    os.environ.update(container.image | container.variables)
    program, *rest = container.command
    if program not in ("python", "python3") or rest[:1] != ["-m"]:
        os.execvp(program, container.command)
    if container.custom_jobs:
        from tests.compiled import vertex_jobs

        vertex_jobs.stand_in(
            Path(container.custom_jobs), container.image, fork_server()
        )
    sys.path[0] = container.directory
    sys.argv = rest[1:]
    try:
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
    finally:
        # A forked process ends without them, which a container does not.
        atexit._run_exitfuncs()


def image_environment(home: Path) -> dict[str, str]:
    """Returns what our image sets, and nothing of this process's environment.

    Args:
      home: An empty directory.
    """
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TF_USE_LEGACY_KERAS": "1",
        # The image has the project installed.
        "PYTHONPATH": str(REPOSITORY),
    }


class Server:
    """The caller's end of a process that serves.

    Args:
      requests: Where its requests go.
      answers: Where its answers come from.
    """

    def __init__(self, requests: TextIO, answers: TextIO) -> None:
        self._requests = requests
        self._answers = answers

    def run(self, container: Container) -> int:
        """Returns the exit code of a container.

        Raises:
          RuntimeError: The serving process ended.
        """
        print(
            json.dumps(dataclasses.asdict(container)), file=self._requests, flush=True
        )
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError(f"the worker ended while it ran {container.command}")
        return int(answer)


def fork_server() -> Server:
    """Returns a server forked from this process as it is now."""
    their_requests, our_requests = os.pipe()
    our_answers, their_answers = os.pipe()
    if os.fork() == 0:
        os.close(our_requests)
        os.close(our_answers)
        with open(their_requests) as requests, open(their_answers, "w") as answers:
            serve(requests, answers)
        os._exit(0)
    os.close(their_requests)
    os.close(their_answers)
    return Server(open(our_requests, "w"), open(our_answers))


@contextlib.contextmanager
def start(*, preload: bool = True) -> Iterator[Server]:
    """Starts a worker, and ends it with all that it runs.

    Args:
      preload: Whether it imports TFX first, which all of its containers then share.

    Yields:
      The worker's other end.
    """
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, *(["--preload"] if preload else [])],
            cwd=home,
            env=image_environment(Path(home)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Server(process.stdin, process.stdout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
            process.stdin.close()
            process.stdout.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--preload"]:
        for module in PRELOADED:
            importlib.import_module(module)
        # A collection in a fork would copy every page of what was imported.
        gc.freeze()
    # What a module prints at its import is no answer.
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        serve(sys.stdin, replies)
