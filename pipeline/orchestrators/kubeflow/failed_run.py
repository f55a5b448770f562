"""Finds out why a run on Kubeflow Pipelines failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.exit_status import FAILURE, USAGE
from pipeline.orchestrators import run_files
from pipeline.orchestrators.kubeflow import argo_nodes


class FailedRun:
    """A run that failed: its tasks in the API, and its files.

    Args:
      run_id: ID of the run.
      tasks: Its tasks, as the API returns them. Argo compresses a large status; then
        the API returns no tasks, or old states.
      max_retries: Retries that the compiled pipeline sets, by component.
      directory: The run's directory in the pipeline root.
      namespace: Kubernetes namespace of the pods.
      read_pod_log: Returns the end of a pod's log; "" if it is unavailable.
    """

    def __init__(
        self,
        run_id: str,
        tasks: Sequence[Any],
        max_retries: Mapping[str, int],
        directory: str,
        namespace: str,
        read_pod_log: Callable[[str], str],
    ) -> None:
        self._run_id = run_id
        self._tasks = tasks
        self._max_retries = max_retries
        self._directory = directory
        self._namespace = namespace
        self._read_pod_log = read_pod_log
        self._unreadable = ""

    def explain(self) -> tuple[str, set[int]]:
        """Returns what failed, and the exit statuses of the failed components.

        The text has their errors, the last lines of a log, or how to read the log.
        """
        failures = self._read_files(run_files.find_failures, self._directory) or {}
        nodes = argo_nodes.failed_nodes(self._tasks, self._max_retries)
        nodes = nodes or {component: component for component in failures}
        explained = [
            self._explain(component, failures.get(component))
            if node == component
            else (
                f"{component} did not start: see {node} on the run's page",
                FAILURE,
            )
            for component, node in nodes.items()
        ]
        reasons = [reason for reason, _ in explained] or [
            "neither the API nor the run's files name the failed component"
        ]
        text = "\n".join(filter(None, [*reasons, self._unreadable]))
        return text, {status for _, status in explained}

    def _explain(
        self, component: str, failure: run_files.Failure | None
    ) -> tuple[str, int]:
        if failure is not None and failure.lines:
            return failure.describe(component), failure.exit_status
        log = self._read_files(run_files.find_log, self._directory, component)
        pod = argo_nodes.pod_name(
            self._tasks, component, self._max_retries.get(component, 0)
        )
        if not log and pod:
            log = run_files.last_lines(self._read_pod_log(pod))
        if log:
            # The last line of KFP's launcher.
            end = re.search(r"failed to execute component: (.+)", "\n".join(log))
            reason = f" ({end[1]})" if end else ""
            head = f"{component} failed{reason}; the last lines of its log:"
            is_refused = reason == f" (exit status {USAGE})"
            status = USAGE if is_refused else FAILURE
            return run_files.with_lines(head, log), status
        command = (
            f"kubectl logs --namespace {self._namespace} {pod} --container main"
            if pod
            else f"kubectl get pods --namespace {self._namespace} "
            f"--selector pipeline/runid={self._run_id}"
        )
        return (
            f"{component} failed: see {component} on the run's page, or run "
            f"`{command}`",
            FAILURE,
        )

    def _read_files(self, read: Callable[..., Any], *arguments: str) -> Any:
        """Calls a reader of files; returns None if this machine cannot read them."""
        if self._unreadable:
            return None
        try:
            return read(*arguments)
        except run_files.UnreadableError as error:
            self._unreadable = f"({error})"
            return None
