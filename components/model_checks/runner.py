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
_LOGGED_BYTES = 1 << 14  # of what a check has written
# `-m` would import modules of the working directory instead of this package's.
_START = f"""
import sys
sys.path[:] = sys.argv[1].splitlines()
from {__package__} import worker
worker.main(sys.argv[2])
"""


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
            start, host.problem, host.has_failed = time.monotonic(), "", False
            result, is_complete = worker.run(check)
            if host.problem:
                result = CheckResult(
                    status="refused", sentence=host.problem, error="E-serving-output"
                )
            result.name, result.title = check.name, check.check.title
            result.seconds = time.monotonic() - start
            if is_complete and path and not host.has_failed:
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
        self._kill()
        self._log.close()

    def run(self, check: ConfiguredCheck) -> tuple[CheckResult, bool]:
        """Runs a check.

        Returns:
          Its result, and whether it came to an end by itself.
        """
        self._log_start = os.fstat(self._log.fileno()).st_size
        setting, timeout = f"checks.{check.name}.timeout", check.settings.timeout
        try:
            with self._running():
                deadline = time.monotonic() + timeout
                limit = f"did not end within the {timeout} s of {setting}"
                self._host.limit(timeout, setting)
                self._connection.send(check.name)
                while True:
                    kind, *content = self._receive(deadline, limit)
                    if kind != "call":
                        break
                    self._connection.send(self._call(*content))
            if kind == "result":
                return CheckResult.model_validate_json(content[0]), True
            if kind == "not applicable":
                return CheckResult(status="not applicable", sentence=content[0]), True
            logger.error("the check %s failed:\n%s", check.name, content[1])
            reason = f"raised {content[0]}"
        except _CheckError as error:
            reason = self._end(check.name, str(error))
        except (EOFError, OSError):
            reason = self._end(check.name, "ended its process")
        except Exception as error:  # noqa: BLE001 (of what a user's code has sent)
            reason = self._end(
                check.name, f"returned or sent what cannot be read: {error!r}"
            )
        return (
            CheckResult(
                status=check.settings.failed,
                sentence=f"the check {reason}",
                advice="correct the check or its settings; the log has more",
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
        except Exception as error:  # noqa: BLE001 (arguments of a user's code)
            return "error", f"{type(error).__name__}: {error}"

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
                        "-c",
                        _START,
                        "\n".join(sys.path),
                        str(other.fileno()),
                    ],
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
        assert self._process
        while not self._connection.poll(
            min(0.1, max(0.0, deadline - time.monotonic()))
        ):
            if self._process.poll() is not None:
                raise EOFError  # a fork holds the connection
            if time.monotonic() >= deadline:
                raise _CheckError(limit)
        return self._connection.recv()

    def _end(self, name: str, reason: str) -> str:
        """Ends the process after a check, and logs what the check has written.

        Args:
          name: The check.
          reason: Why the process is ended.

        Returns:
          The reason with the last line.
        """
        self._kill()
        size = os.fstat(self._log.fileno()).st_size
        start = max(self._log_start, size - _LOGGED_BYTES)
        output = os.pread(self._log.fileno(), size - start, start)
        text = output.decode(errors="replace").strip() or "it wrote nothing"
        logger.error("the check %s %s; its output:\n%s", name, reason, text)
        return f"{reason}: {text.splitlines()[-1][:500]}"

    def _kill(self) -> None:
        """Ends the process, and what its checks have started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._connection.close()
            self._process = None


class _CheckError(Exception):
    """A check did not end."""
