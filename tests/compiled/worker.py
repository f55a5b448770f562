"""A process that imports TFX once and forks for each container it runs.

`python -m tests.compiled.worker [--preload]` reads a `Container` in JSON from each line
of its standard input, runs it, and writes the exit code to its standard output.
"""

import atexit
import contextlib
import functools
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
from tests.compiled import launcher, pod
from tests.compiled.container import Container, WorkerConnection, image_environment
from tests.object_store.client import ObjectStore

# What the containers import. None of these modules executes a TensorFlow op or starts
# a thread, which a fork would lose. The entry points themselves are missing: `runpy`
# warns about a module that is imported already.
PRELOADED = (
    "tfx.v1",
    "tfx.components.evaluator.executor",
    "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_entrypoint_utils",
    "google.cloud.aiplatform",
    "official.nlp.modeling.models",
    "modules.training.run_fn",
    "pipeline.pipeline",  # the components
)
_CONTEXT = multiprocessing.get_context("fork")


def serve(requests: TextIO, exit_codes: TextIO) -> None:
    """Runs a container for each line, until the input ends."""
    for line in requests:
        container = Container(**json.loads(line))
        process = _CONTEXT.Process(target=_run, args=(container,))
        process.start()
        process.join()
        if container.executor_input is not None:
            pod.empty()
        print(process.exitcode, file=exit_codes, flush=True)


def _run(container: Container) -> None:
    """Runs the container in this process."""
    log = os.open(container.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    if container.executor_input is None:
        _execute(container)
        return
    address = container.image["STORAGE_EMULATOR_HOST"]
    status = launcher.launch(
        container.executor_input,
        ObjectStore(int(address.rpartition(":")[2]), certificate="", credentials=""),
        Path(container.log),
        Path(container.output),
        functools.partial(_run_child, container),
    )
    sys.exit(status)


def _run_child(container: Container) -> int:
    process = _CONTEXT.Process(target=_execute, args=(container,))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _execute(container: Container) -> None:
    """Runs the container's command in this process."""
    os.chdir(container.directory)
    os.environ.clear()
    os.environ.update(container.image | container.variables)
    program, *rest = container.command
    if program not in ("python", "python3") or rest[:1] != ["-m"]:
        os.execvp(program, container.command)
    if container.custom_jobs:
        from tests.compiled import vertex_jobs

        vertex_jobs.stand_in(
            Path(container.custom_jobs), container.image, fork_worker()
        )
    sys.path[0] = container.directory
    sys.argv = rest[1:]
    try:
        runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
    finally:
        # multiprocessing skips them in a forked process.
        atexit._run_exitfuncs()


def fork_worker() -> WorkerConnection:
    """Returns a connection to a worker that is forked from this process."""
    their_requests, our_requests = os.pipe()
    our_codes, their_codes = os.pipe()
    if os.fork() == 0:
        os.close(our_requests)
        os.close(our_codes)
        with open(their_requests) as requests, open(their_codes, "w") as exit_codes:
            serve(requests, exit_codes)
        os._exit(0)
    os.close(their_requests)
    os.close(their_codes)
    return WorkerConnection(open(our_requests, "w"), open(our_codes))


@contextlib.contextmanager
def start(
    *, preload: bool = True, store: ObjectStore | None = None
) -> Iterator[WorkerConnection]:
    """Starts a worker; at the end, kills it and its containers.

    Args:
      preload: Whether the worker imports TFX for all of its containers.
      store: The object store of Kubeflow's containers, whose worker is restricted as a
        pod is; None restricts nothing.

    Yields:
      A connection to the worker.
    """
    command = [sys.executable, "-m", __name__, *(["--preload"] if preload else [])]
    # Not below pytest's directories, which other users cannot read.
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as own:
        exchange = Path(own)
        environment = image_environment(Path(pod.HOME) if store else exchange)
        if store is not None:
            os.chown(exchange, pod.USER, 0)
            paths = {
                # `.venv` may be a link of the repository.
                *(str(REPOSITORY), os.path.realpath(sys.prefix), sys.base_prefix, own),
                os.path.dirname(store.environment["CURL_CA_BUNDLE"]),
            }
            command = [
                *("unshare", "--mount", "--propagation", "private"),
                *(sys.executable, "-m", pod.__name__, scratch, *sorted(paths), "--"),
                *command,
            ]
        process = subprocess.Popen(
            command,
            cwd=exchange,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield WorkerConnection(process.stdin, process.stdout, exchange)
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
    # Modules may print to standard output when they are imported.
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)
        serve(sys.stdin, replies)
