"""Reads files that the containers of a run wrote to its directory.

The directory of a run is `PIPELINE_ROOT/PIPELINE/RUN_ID` on Kubeflow Pipelines, and by
the documentation `PIPELINE_ROOT/PROJECT_NUMBER/JOB_ID` on Vertex AI. A component has
`COMPONENT/UUID` in it, which all attempts of its pod share, or `COMPONENT_TASK-ID`.
Only directories down to there are listed: an artifact may have many files.

TensorFlow is imported when a directory is read: that takes seconds, and `submit` must
report a wrong address before.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import re
from collections.abc import Iterator

from contracts.storage import files
from pipeline import entrypoint
from pipeline.config import tfx_names
from report.content import ERROR_FILE

# KFP's launcher writes it where logs are published; later versions add the number of
# the attempt, as executor-logs-0, and publish the log of a failed attempt, too.
_LOG = "executor-logs"
_FAILURE, _, _ = entrypoint.FAILURE_FILE.partition("{")

_MAX_LINES = 15
_MAX_LINE_LENGTH = 2000
# Read from the end of a log: more than _MAX_LINES lines of most logs.
TAIL_BYTES = 2**16
_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class UnreadableError(Exception):
    """The directory of a run cannot be read from this machine."""


@dataclasses.dataclass(frozen=True)
class Failure:
    """What the entry point recorded about a failed component.

    Attributes:
      exit_status: Exit status of the container.
      lines: The message, or the last lines of the traceback; empty if the container
        was killed.
    """

    exit_status: int
    lines: list[str]

    def describe(self, component: str) -> str:
        """Returns the failure of a component."""
        head = f"{component} ended with exit status {self.exit_status}:"
        return with_lines(head, self.lines)


def find_failures(run_directory: str) -> dict[str, Failure]:
    """Returns what the entry point recorded of newest attempts, by component.

    Raises:
      UnreadableError: The directory cannot be read from this machine.
    """
    failures = {}
    with _clear_errors(run_directory):
        for component, directories in _task_directories(run_directory).items():
            records = _find(directories, _FAILURE)
            if records:
                record: entrypoint.Failure = files.read_record(records[-1])
                lines = [_printable(line) for line in record["error"].splitlines()]
                failures[component] = Failure(record["exit_status"], lines)
    return failures


def find_log(run_directory: str, component: str) -> list[str]:
    """Returns the last lines of the log that KFP's launcher published.

    Raises:
      UnreadableError: The directory cannot be read from this machine.
    """
    with _clear_errors(run_directory):
        logs = _find(_task_directories(run_directory, component)[component], _LOG)
        return last_lines(_read_tail(logs[-1])) if logs else []


def find_missing_results(run_directory: str) -> str:
    """Returns what Report could not write, and the file with the error; "" if nothing.

    Raises:
      UnreadableError: The directory cannot be read from this machine.
    """
    with _clear_errors(run_directory):
        component, output = tfx_names.PAGE
        directories = _task_directories(run_directory, component)[component]
        errors = _find(directories, ERROR_FILE, below=f"/{output}")
        if not errors:
            return ""
        what, _, _ = _read_tail(errors[-1]).partition("\n")
        return f"{what}; see {errors[-1]}"


def last_lines(text: str) -> list[str]:
    """Returns the last lines of a log, without control characters and colors."""
    return [_printable(line) for line in text.rstrip().splitlines()[-_MAX_LINES:]]


def with_lines(head: str, lines: list[str]) -> str:
    """Returns a line with other lines below it, which are indented."""
    return "\n".join([head, *(f"  {line}" for line in lines)])


def _printable(line: str) -> str:
    line = _COLOR.sub("", line)
    printable = "".join(c if c.isprintable() else " " for c in line).rstrip()
    is_long = len(printable) > _MAX_LINE_LENGTH
    return printable[:_MAX_LINE_LENGTH] + ("…" if is_long else "")


def _task_directories(
    run_directory: str, component: str | None = None
) -> dict[str, list[str]]:
    """Returns the directories of all components, or of one, by component."""
    directories: dict[str, list[str]] = collections.defaultdict(list)
    for name in _list(run_directory):
        owner, is_vertex, _ = name.partition("_")
        if component in (owner, None):
            path = f"{run_directory}/{name}"
            directories[owner] += (
                [path] if is_vertex else [f"{path}/{uuid}" for uuid in _list(path)]
            )
    return directories


def _find(directories: list[str], start: str, below: str = "") -> list[str]:
    """Returns files of a component by the start of their name, newest last.

    `below` is their directory, relative to one of the component.
    """
    import tensorflow as tf

    paths = [
        f"{directory}{below}/{name}"
        for directory in directories
        for name in _list(f"{directory}{below}")
        if name.startswith(start)
    ]
    return sorted(paths, key=lambda path: (tf.io.gfile.stat(path).mtime_nsec, path))


def _list(directory: str) -> list[str]:
    return sorted(files.list_names(directory))


def _read_tail(file: str) -> str:
    import tensorflow as tf

    with tf.io.gfile.GFile(file, "rb") as opened:
        opened.seek(max(0, opened.size() - TAIL_BYTES))
        return opened.read().decode(errors="replace")


@contextlib.contextmanager
def _clear_errors(run_directory: str) -> Iterator[None]:
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        reason = error.message.partition("\n")[0] or type(error).__name__
        raise UnreadableError(f"{run_directory} cannot be read: {reason}") from error
