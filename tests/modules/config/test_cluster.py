"""`TF_CONFIG` is read once, before a run; junk and other jobs' clusters are named."""

import json
import os

import pytest

from modules.config import cluster
from modules.errors import UsageError

JOB = {
    "cluster": {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222"]},
    "task": {"type": "worker", "index": 0},
}
CHIEF = {"type": "chief", "index": 0}
SERVERS = {
    "cluster": {"chief": ["10.0.0.1:2222"], "ps": ["10.0.0.3:2222"]},
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
    '{"cluster": {}, "task": "chief"}',
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


@pytest.mark.parametrize("text", ["", "{}", '{"cluster": {}}', json.dumps(SINGLE)])
def test_auto_trains_in_this_process_if_no_other_is_named(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    assert cluster.select_strategy("auto") is None
    cluster.prepare_local_run("auto")
    assert "TF_CONFIG" not in os.environ


@pytest.mark.parametrize(
    ("strategy", "content", "tasks"),
    [
        ("auto", JOB, "2 tasks"),
        ("auto", SERVERS, "2 tasks"),
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
def test_strategy_without_a_cluster_is_refused(name, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(UsageError, match=f"strategy is {name}, but .*TF_CONFIG"):
        cluster.prepare_local_run(name)


@pytest.mark.parametrize(
    ("content", "selected"),
    [(JOB, "multi_worker_mirrored"), (SERVERS, "parameter_server")],
)
def test_auto_selects_the_strategy_of_the_cluster(monkeypatch, content, selected):
    monkeypatch.setenv("TF_CONFIG", json.dumps(content))
    assert cluster.select_strategy("auto") == selected


def test_coordinator_of_parameter_servers_keeps_the_variable(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps(SERVERS))
    cluster.prepare_local_run("parameter_server")
    assert json.loads(os.environ["TF_CONFIG"]) == SERVERS
