"""`TF_CONFIG` is read once, before a run; junk and other jobs' clusters are named."""

import json
import os

import pytest

from contracts.errors import UsageError
from contracts.settings import cluster

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


@pytest.mark.parametrize("strategy", ["auto", "multi_worker_mirrored"])
@pytest.mark.parametrize("text", JUNK)
def test_junk_is_refused_with_its_text_and_the_form(monkeypatch, text, strategy):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UsageError, match=r"trainer\.strategy to one_device") as error:
        cluster.prepare_local_run(strategy)
    assert f"environment variable TF_CONFIG is {text!r}" in str(error.value)
    assert "allowed is JSON with `cluster`" in str(error.value)


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
    ("strategy", "content", "tasks"),
    [
        ("auto", JOB, "2 tasks"),
        ("multi_worker_mirrored", JOB, "2 tasks"),
        ("multi_worker_mirrored", SINGLE, "1 task"),
    ],
)
def test_cluster_is_refused_before_a_run_on_this_machine(
    monkeypatch, strategy, content, tasks
):
    monkeypatch.setenv("TF_CONFIG", json.dumps(content))
    message = rf"strategy is {strategy}, and .* TF_CONFIG names a cluster of {tasks},"
    with pytest.raises(UsageError, match=message):
        cluster.prepare_local_run(strategy)


@pytest.mark.parametrize("name", ["multi_worker_mirrored", "parameter_server"])
@pytest.mark.parametrize("text", NO_CLUSTER)
def test_strategy_without_a_cluster_is_refused(name, text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UsageError, match=f"is {name}, but .*TF_CONFIG names no clust"):
        cluster.prepare_local_run(name)


@pytest.mark.parametrize(
    ("name", "job", "missing"),
    [
        ("parameter_server", "ps", "no ps"),
        ("parameter_server", "worker", "no worker"),
        ("auto", "worker", "no worker"),
    ],
)
def test_parameter_servers_need_a_server_and_a_worker(monkeypatch, name, job, missing):
    jobs = {key: tasks for key, tasks in SERVERS["cluster"].items() if key != job}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": jobs, "task": CHIEF}))
    with pytest.raises(UsageError, match=rf"is {name}, but .*CONFIG names {missing}"):
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
    message = rf"strategy is {strategy}, and .* this process {job} 0 .* as the chief"
    with pytest.raises(UsageError, match=message):
        cluster.prepare_local_run(strategy)
