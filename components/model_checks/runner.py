"""Runs checks in a process of their own, and keeps their results."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import psutil

from components.model_checks.check import NotApplicable
from components.model_checks.host import Host
from components.model_checks.registry import ConfiguredCheck
from contracts import fingerprint
from contracts.records.checks import CheckResult
from contracts.storage import files, uris

logger = logging.getLogger(__name__)

_START_SECONDS = 120  # to import the checks on a busy machine


def run_checks(
    checks: Sequence[ConfiguredCheck],
    host: Host,
    *,
    directory: str | None = None,
    cache: str | None = None,
    keys: Mapping[str, str] = MappingProxyType({}),
) -> list[CheckResult]:
    """Runs checks one after the other.

    Args:
      checks: The checks.
      host: What they can call.
      directory: Contains the modules of a user's own checks; None without any.
      cache: Directory of earlier results; None keeps none.
      keys: By check, a hash of all that its result depends on, for the cache.

    Returns:
      The results in the order of the checks.
    """
    results = []
    with _Worker(checks, host, directory) as worker:
        for check in checks:
            path = None
            if cache and check.name in keys:
                key = fingerprint.of_text(check.name, keys[check.name])
                path = uris.join(cache, f"{key}.json")
                if kept := files.read_record(path):
                    results.append(CheckResult.model_validate(kept["result"]))
                    continue
            host.start()  # TensorFlow is imported while the first checks run
            start, host.problem = time.monotonic(), ""
            result, is_complete = worker.run(check)
            if host.problem:
                result = CheckResult(
                    status="refused", sentence=host.problem, error="E-serving-output"
                )
            result.name, result.title = check.name, check.check.title
            result.seconds = time.monotonic() - start
            if is_complete and path:
                files.write_record(path, {"result": result.as_json()})
            results.append(result)
    return results


class _Worker:
    """The process of the checks; it is replaced after a check that fails.

    Args:
      checks: The checks.
      host: What they can call.
      directory: Contains the modules of a user's own checks; None without any.
    """

    def __init__(
        self, checks: Sequence[ConfiguredCheck], host: Host, directory: str | None
    ) -> None:
        sections = {
            check.name: check.settings.model_dump(mode="json") for check in checks
        }
        self._message = (host.facts, directory, sections)
        self._host = host
        self._process: psutil.Popen | None = None

    def __enter__(self) -> _Worker:
        self._log = tempfile.TemporaryFile()
        return self

    def __exit__(self, *error: object) -> None:
        self._end()
        self._log.close()

    def run(self, check: ConfiguredCheck) -> tuple[CheckResult, bool]:
        """Runs a check.

        Returns:
          Its result, and whether it came to an end by itself.
        """
        setting, timeout = f"checks.{check.name}.timeout", check.settings.timeout
        written = self._log.seek(0, os.SEEK_END)
        try:
            with self._running():
                deadline = time.monotonic() + timeout
                limit = f"did not end within the {timeout} s of {setting}"
                self._connection.send(check.name)
                while True:
                    kind, *content = self._receive(deadline, limit)
                    if kind != "call":
                        break
                    self._host.limit(max(0.1, deadline - time.monotonic()), setting)
                    self._connection.send(self._call(*content))
            if kind == "result":
                return CheckResult.model_validate_json(content[0]), True
            if kind == "not applicable":
                return CheckResult(status="not applicable", sentence=content[0]), True
            logger.error("the check %s failed:\n%s", check.name, content[1])
            reason = f"raised {content[0]}"
        except (_CheckError, EOFError, OSError) as error:
            self._end()
            self._log.seek(written)
            lines = self._log.read().decode(errors="replace").strip().splitlines()
            output = "\n".join(lines[-50:]) or "nothing"
            logger.error("the check %s wrote:\n%s", check.name, output)
            last = lines[-1][:500] if lines else "it wrote nothing"
            reason = str(error) or f"ended its process: {last}"
        return (
            CheckResult(
                status=check.settings.failed,
                sentence=f"the check {reason}",
                advice="correct the check or its settings; the log of the run has more",
            ),
            False,
        )

    def _call(self, method: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
        try:
            return "value", self._host.call(method, *arguments)
        except NotApplicable as reason:
            return "not applicable", str(reason)
        except (RuntimeError, OSError, ValueError) as error:
            return "error", str(error)

    @contextlib.contextmanager
    def _running(self) -> Iterator[None]:
        """Starts the process, if it does not run, and ends what a check has started."""
        if self._process is None:
            self._connection, other = multiprocessing.Pipe()
            with other:
                self._process = psutil.Popen(
                    [
                        sys.executable,
                        "-u",  # what a killed check has printed is logged
                        "-m",
                        __package__ + ".worker",
                        str(other.fileno()),
                    ],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=[other.fileno()],
                )
            self._connection.send(self._message)
            deadline = time.monotonic() + _START_SECONDS
            self._receive(deadline, f"did not start within {_START_SECONDS} s")
        process = self._process
        try:
            yield
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in process.children(recursive=True):
                    child.kill()

    def _receive(self, deadline: float, limit: str) -> tuple[Any, ...]:
        if not self._connection.poll(max(0.0, deadline - time.monotonic())):
            raise _CheckError(limit)
        return self._connection.recv()

    def _end(self) -> None:
        """Ends the process, and what its checks have started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._connection.close()
            self._process = None


class _CheckError(Exception):
    """A check did not end."""
