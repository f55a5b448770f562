"""`TF_CONFIG` is read once, before a run; junk and other jobs' clusters are named."""

import json
import os
import re

import pytest

from contracts.settings import cluster
from tests.refusals import refused

JOB = {
    "cluster": {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222"]},
    "task": {"type": "worker", "index": 0},
}
CHIEF = {"type": "chief", "index": 0}
SERVERS = {
    "cluster": {
        "chief": ["10.0.0.1:2222"],
        "worker": ["10.0.0.2:2222"],
        "ps": ["10.0.0.3:2222"],
    },
    "task": CHIEF,
}
SINGLE = {"cluster": {"chief": ["10.0.0.1:2222"]}, "task": CHIEF, "job": {"a": "key"}}
JUNK = [
    "{oops",
    "[]",
    "null",
    "3",
    '{"cluster": []}',
    '{"cluster": {"worker": "10.0.0.1:2222"}}',
    '{"cluster": {"worker": [1, 2]}}',
    '{"cluster": {"worker": ["10.0.0.1:2222"]}}',
    '{"cluster": {"worker": {"0": "a:1"}}, "task": {"type": "worker", "index": 0}}',
    *(
        json.dumps({**JOB, "task": {"type": job, "index": index}})
        for job, index in [("ps", 0), ("worker", 1), ("worker", -3)]
    ),
]
NO_CLUSTER = [
    "",
    "{}",
    '{"cluster": {}}',
    '{"cluster": {}, "task": {}}',
    '{"cluster": {"ps": []}}',
]


def refuses(got, **fields):
    return refused("E-tf-config", setting="TF_CONFIG", got=re.compile(got), **fields)


@pytest.mark.parametrize("strategy", ["auto", "multi_worker_mirrored"])
@pytest.mark.parametrize("text", JUNK)
def test_junk_is_refused_with_its_text_and_the_form(monkeypatch, text, strategy):
    monkeypatch.setenv("TF_CONFIG", text)
    with refuses(
        re.escape(repr(text)),
        allowed=re.compile("^JSON with"),
        advice=re.compile("^unset it, or use `trainer.strategy=one_device`"),
    ):
        cluster.prepare_local_run(strategy)


@pytest.mark.parametrize("strategy", ["one_device", "mirrored", "tpu"])
@pytest.mark.parametrize("text", [*JUNK, json.dumps(JOB), json.dumps(SERVERS)])
def test_strategy_of_one_process_ignores_the_variable(monkeypatch, text, strategy):
    monkeypatch.setenv("TF_CONFIG", text)
    cluster.prepare_local_run(strategy)
    assert "TF_CONFIG" not in os.environ  # TFX's Trainer would read it


@pytest.mark.parametrize("text", [*NO_CLUSTER, json.dumps(SINGLE)])
def test_auto_trains_in_this_process_if_no_other_is_named(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    assert cluster.select_strategy("auto") is None
    cluster.prepare_local_run("auto")
    assert "TF_CONFIG" not in os.environ


@pytest.mark.parametrize(
    ("strategy", "content", "jobs"),
    [
        ("auto", JOB, "chief and worker"),
        ("multi_worker_mirrored", JOB, "chief and worker"),
        ("multi_worker_mirrored", SINGLE, "chief"),
    ],
)
def test_cluster_is_refused_before_a_run_on_this_machine(
    monkeypatch, strategy, content, jobs
):
    monkeypatch.setenv("TF_CONFIG", json.dumps(content))
    with refuses(f"a cluster of {jobs}, which trainer.strategy {strategy} uses"):
        cluster.prepare_local_run(strategy)


@pytest.mark.parametrize("name", ["multi_worker_mirrored", "parameter_server"])
@pytest.mark.parametrize("text", NO_CLUSTER)
def test_strategy_without_a_cluster_is_refused(name, text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with refuses(f"no cluster, which trainer.strategy {name} needs"):
        cluster.prepare_local_run(name)


@pytest.mark.parametrize(
    ("name", "job", "missing"),
    [
        ("parameter_server", "ps", "ps"),
        ("parameter_server", "worker", "worker"),
        ("auto", "worker", "worker"),
    ],
)
def test_parameter_servers_need_a_server_and_a_worker(monkeypatch, name, job, missing):
    jobs = {key: tasks for key, tasks in SERVERS["cluster"].items() if key != job}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": CHIEF}))
    with refuses(f"no {missing}, which trainer.strategy parameter_server needs"):
        cluster.prepare_local_run(name)


@pytest.mark.parametrize(
    ("content", "selected"),
    [(JOB, "multi_worker_mirrored"), (SERVERS, "parameter_server")],
)
def test_auto_selects_the_strategy_of_the_cluster(monkeypatch, content, selected):
    monkeypatch.setenv("TF_CONFIG", json.dumps(content))
    assert cluster.select_strategy("auto") == selected


@pytest.mark.parametrize("strategy", ["auto", "parameter_server"])
def test_coordinator_of_parameter_servers_keeps_the_variable(monkeypatch, strategy):
    monkeypatch.setenv("TF_CONFIG", json.dumps(SERVERS))
    cluster.prepare_local_run(strategy)
    assert json.loads(os.environ["TF_CONFIG"]) == SERVERS


@pytest.mark.parametrize("strategy", ["auto", "parameter_server"])
@pytest.mark.parametrize("job", ["worker", "ps", "evaluator"])
def test_run_that_is_not_the_coordinator_is_refused(monkeypatch, strategy, job):
    """It would wait for the coordinator in the Trainer, after all data steps."""
    content = {**SERVERS, "task": {"type": job, "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(content))
    advice = re.compile("^start it as the chief, unset it, or use")
    with refuses(rf"{job} 0 of .* trainer.strategy {strategy} uses", advice=advice):
        cluster.prepare_local_run(strategy)
