"""Argo's nodes, which Kubeflow Pipelines lists as the tasks of a run.

A component has a node of its name, and its driver a second node. Below the first are
the nodes `COMPONENT(0)`, `executor` and `executor(0)`, which is the pod; the number
counts attempts. The tests compare the pods' names with those of a cluster
(`tests/compiled/recordings`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pipeline.orchestrators.run_client import FAILED

_NODE = re.compile(r"(?P<name>.*?)(\((?P<attempt>\d+)\))?")
# Upstream's configuration for Argo allows three since version 2.17.
_MAX_ATTEMPTS = 5


def failed_nodes(tasks: Iterable[Any], components: Iterable[str]) -> dict[str, str]:
    """Returns the failed node, of a component or of its driver, by component.

    The tasks are those of a run, as the API returns them.
    """
    nodes = []
    for task in tasks:
        match = _NODE.fullmatch(task.display_name or "")
        assert match is not None
        nodes.append((float(match["attempt"] or "inf"), match["name"], task.state))
    nodes.sort(key=lambda node: node[0])  # the node of all attempts comes last
    states = {name: state for _, name, state in nodes}
    return {
        component: node
        for component in components
        for node in (f"{component}-driver", component)
        if states.get(node) == FAILED
    }


def pod_name(tasks: Iterable[Any], component: str, max_retries: int) -> str | None:
    """Returns the name of the pod of a component's last attempt.

    The API returns the IDs of Argo's nodes, `WORKFLOW-HASH`; the pod has the same hash.

    Args:
      tasks: Tasks of a run, as the API returns them.
      component: Name of the component.
      max_retries: Retries that the compiled pipeline sets for the component.

    Returns:
      The name, or None if the API does not list the pod's node.
    """
    nodes = {child.pod_name for task in tasks for child in task.child_tasks or []}
    template = "retry-system-container-impl" if max_retries else "system-container-impl"
    pod = None
    for workflow in sorted({node.rpartition("-")[0] for node in nodes if node}):
        for name in _executors(workflow, component, max_retries):
            number = _hash(name)
            if f"{workflow}-{number}" in nodes:
                pod = f"{workflow}-{template}-{number}"
    return pod


def _executors(workflow: str, component: str, max_retries: int) -> Iterator[str]:
    """Yields possible names of the pod's node, later attempts later."""
    attempts = range(max(_MAX_ATTEMPTS, max_retries + 1))
    yield f"{workflow}.root.{component}.executor"
    for attempt in attempts:
        yield f"{workflow}.root.{component}.executor({attempt})"
    # Since version 2.17, Argo's configuration has every node retried.
    above = itertools.product(range(_MAX_ATTEMPTS), repeat=3)
    for (entry, root, dag), attempt in itertools.product(above, attempts):
        yield f"{workflow}({entry}).root({root}).{component}({dag}).executor({attempt})"


def _hash(name: str) -> int:
    """Returns FNV-1a (32 bits), as `NodeID` of Argo does."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
