"""Runs operations with a fault at one of their calls, in forked processes.

    python -m tests.faults.injection DIRECTORY

runs with `preload.c` in `LD_PRELOAD`. It has imported all that the operations need, so
that a fault costs a fork instead of an import of TensorFlow. It reads `Fault`s as JSON,
one a line, and answers each with a `Trial`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODES = ("count", "fail once", "fail from", "kill", "tear")  # as in preload.c
LOG = "calls"
_SECONDS = 60  # a forked process is killed after them


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of an operation.

    Attributes:
      operation: Its name.
      mode: One of `MODES`; `count` is no fault. `fail from` fails a call and all later
        ones that need space, as a full disk does. `tear` kills after half of a write.
      call: The number of the call, from 1.
      error: The error number of a call that fails.
    """

    operation: str
    mode: str = "count"
    call: int = 0
    error: int = 0


@dataclasses.dataclass(frozen=True)
class Trial:
    """What a fault led to.

    Attributes:
      calls: The calls of the operation below its directory: name and paths.
      ended: How the operation ended: `done`, `refused: LINE`, `killed`, or anything
        else, which is a defect.
      damage: What was lost afterwards; empty if nothing was.
      again: How the same operation ended when it was run again.
      outcome: What the user has after that.
    """

    calls: list[list[str]]
    ended: str
    damage: str
    again: str
    outcome: Any


class Injector:
    """The process that injects faults, as a context manager.

    Args:
      directory: A new directory.
    """

    def __init__(self, directory: Path) -> None:
        library = directory / "preload.so"
        source = Path(__file__).with_name("preload.c")
        directory.mkdir(parents=True)
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
        subprocess.run(command, check=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(directory)],
            env={**os.environ, "LD_PRELOAD": str(library), "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Injector:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def try_fault(self, fault: Fault) -> Trial:
        """Runs an operation with a fault, and again without it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(dataclasses.asdict(fault)) + "\n")
        self._process.stdin.flush()
        return Trial(**json.loads(self._process.stdout.readline()))


def fork(work: Callable[[], Any], log: Path) -> tuple[str, Any]:
    """Runs a function in a forked process.

    Args:
      work: The function.
      log: The file of its output.

    Returns:
      How it ended, as in `Trial`, and what it returned.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        os.close(reader)
        signal.alarm(_SECONDS)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        answer: tuple[str, Any]
        try:
            answer = "done", work()
        except SystemExit as exit_:
            sys.stdout.flush()
            sys.stderr.flush()
            answer = describe_exit(exit_.code, log.read_text()), None
        except Exception as error:  # noqa: BLE001 (it is the answer)
            traceback.print_exc()
            answer = describe_error(error), None
        arm_nothing()
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        content = pipe.read()
    _, status = os.waitpid(process, 0)
    if content:
        ended, value = json.loads(content)
        return ended, value
    number = os.waitstatus_to_exitcode(status)
    return "killed" if number == -signal.SIGKILL else f"ended with {number}", None


def describe_exit(status: object, output: str) -> str:
    """Returns how a command ended: with one line about an error, or otherwise."""
    if not status:
        return "done"
    lines = output.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    if status in (1, 2) and len(errors) == 1 and "Traceback" not in "".join(lines):
        return f"refused: {errors[0]}"
    return f"exit status {status}: {lines}"


def describe_error(error: Exception) -> str:
    """Returns an error of a function: of the file system, or with advice."""
    from contracts.errors import UsageError
    from contracts.versions.served_versions import VersionError

    expected: tuple[type[Exception], ...] = (OSError, UsageError, VersionError)
    if "tensorflow" in sys.modules:
        from tensorflow import errors

        expected += (errors.OpError,)
    if isinstance(error, expected):
        return f"refused: {type(error).__name__}: {error}"
    return f"{type(error).__name__}: {error}"


def arm(directory: Path, fault: Fault, log: Path) -> None:
    """Counts the calls of this process below a directory, and fails one of them."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    ctypes.CDLL(None).fault_arm(
        os.fsencode(directory),
        MODES.index(fault.mode),
        ctypes.c_long(fault.call),
        fault.error,
        descriptor,
    )


def arm_nothing() -> None:
    """Undoes `arm`."""
    ctypes.CDLL(None).fault_disarm()


def try_fault(directory: Path, fault: Fault) -> Trial:
    """See `Injector.try_fault`; in the process that has the preloaded library."""
    from tests.faults.operations import OPERATIONS

    operation = OPERATIONS[fault.operation]
    template, work = directory / f"{fault.operation} before", directory / "work"
    log, calls = directory / "output", directory / LOG

    def prepare() -> None:
        operation.prepare(work)

    shutil.rmtree(work, ignore_errors=True)
    if not template.exists():
        work.mkdir()
        ended, _ = fork(prepare, log)
        assert ended == "done", (ended, log.read_text())
        work.rename(template)
    shutil.copytree(template, work, symlinks=True)

    def run() -> None:
        operation.run(work)

    def run_armed() -> None:
        arm(work, fault, calls)
        run()

    def describe_damage() -> str:
        try:
            operation.check(work)
        except Exception:  # noqa: BLE001 (it is the answer)
            return traceback.format_exc()
        return ""

    ended, _ = fork(run_armed, log)
    counted = [line.split("\t") for line in calls.read_text().splitlines()]
    checked, damage = fork(describe_damage, log)
    again, _ = fork(run, log)
    seen, outcome = fork(lambda: operation.outcome(work), log)
    if checked != "done" or seen != "done":
        damage = f"{damage}{checked} {seen} {log.read_text()}"
    return Trial(counted, ended, damage, again, outcome)


def main() -> None:
    from tests.faults.operations import warm_up

    directory = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the libraries print is no answer
    warm_up()
    for line in sys.stdin:
        trial = try_fault(directory, Fault(**json.loads(line)))
        answers.write(json.dumps(dataclasses.asdict(trial)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
