"""Argo's nodes and the names of their pods, compared with those of a cluster."""

import types

import pytest

from pipeline.orchestrators.kubeflow import argo_nodes
from tests.pipeline.orchestrators.kubeflow import recordings


def task(name, state="SUCCEEDED", children=()):
    nodes = [types.SimpleNamespace(pod_name=child) for child in children]
    return types.SimpleNamespace(display_name=name, state=state, child_tasks=nodes)


def fnv1a(name):
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


# The cluster's second run had no retries.
@pytest.mark.parametrize(
    ("run", "max_retries", "count"), [(".", 2, 14), ("second_run", 0, 4)]
)
def test_names_of_pods_are_those_of_the_cluster(run, max_retries, count):
    pods = recordings.pods(run)
    assert len(pods) == count
    tasks = [task("executor", children=[recordings.node_id(p)]) for p in pods.values()]
    for component, pod in pods.items():
        assert argo_nodes.pod_name(tasks, component, max_retries) == pod


def test_pod_is_that_of_the_last_attempt_that_the_api_lists():
    first, second, other = (
        f"a-b-{fnv1a(f'a-b(0).root(0).{name}')}"
        for name in ("Trainer(0).executor(0)", "Trainer(0).executor(1)", "Champion")
    )
    tasks = [task("executor", children=[second, first]), task("root", children=[other])]
    pod = argo_nodes.pod_name(tasks, "Trainer", 2)
    assert pod == second.replace("a-b-", "a-b-retry-system-container-impl-")
    assert argo_nodes.pod_name(tasks, "Evaluator", 2) is None


def test_component_whose_second_attempt_succeeded_did_not_fail():
    tasks = [
        task("Trainer(0)", "FAILED"),
        task("Trainer"),
        task("Trainer(1)"),
        task("Evaluator", "FAILED"),
        task("Evaluator(0)", "FAILED"),
        task("Report-driver", "FAILED"),
        task("executor(0)", "FAILED"),
        task("root", "FAILED"),
    ]
    components = ["Evaluator", "Report", "Trainer"]
    assert argo_nodes.failed_nodes(tasks, components) == {
        "Evaluator": "Evaluator",
        "Report": "Report-driver",
    }
