"""The process that checks run in: a check that hangs, prints or forks does no harm.

`runner` starts it. It has no TensorFlow. It reads messages from a
`multiprocessing.connection.Connection`: first the `Facts`, the directory of a user's
own checks and the sections of the checks, then the name of each check to run. A check's
calls of the component and its result are sent as tuples: ("call", method, arguments),
("result", JSON), ("not applicable", why) or ("error", exception, traceback). The first
one is ("ready",).
"""

from __future__ import annotations

import os
import signal
import traceback
from multiprocessing.connection import Connection
from typing import Any

from components.model_checks import registry
from components.model_checks.check import Data, Model, NotApplicable
from contracts.records.checks import CheckResult

_GRACE_SECONDS = 60  # after which the component would have killed the process


def main(descriptor: str) -> None:
    """Runs checks until the caller closes the connection.

    Args:
      descriptor: Number of the file descriptor of the connection.
    """
    process = os.getpid()
    connection = Connection(int(descriptor))
    facts, directory, sections = connection.recv()

    def call(method: str, *arguments: Any) -> Any:
        connection.send(("call", method, arguments))
        kind, value = connection.recv()
        if kind == "value":
            return value
        raise (NotApplicable if kind == "not applicable" else RuntimeError)(value)

    data = Data(facts, call)
    model = Model("candidate", facts.task, facts.thresholds["candidate"], call)
    connection.send(("ready",))
    while True:
        try:
            name = connection.recv()
        except EOFError:
            return
        message: tuple[str, ...]
        try:
            # The process ends even if the component was killed while a check hangs.
            signal.alarm(sections[name]["timeout"] + _GRACE_SECONDS)
            (configured,) = registry.configure({name: sections[name]}, directory)
            result = configured.check.run(model, data, configured.settings)
            if not isinstance(result, CheckResult):
                raise TypeError(
                    f"returned {type(result).__name__} instead of CheckResult"
                )
            message = "result", result.model_dump_json()
        except NotApplicable as reason:
            message = "not applicable", str(reason)
        except Exception as error:  # noqa: BLE001 (of a user's code)
            lines = "".join(traceback.format_exception_only(error)).split()
            message = "error", " ".join(lines)[:500], traceback.format_exc()
        signal.alarm(0)
        if os.getpid() != process:  # a process that the check has forked
            os._exit(0)
        connection.send(message)
