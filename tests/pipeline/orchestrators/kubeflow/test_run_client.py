"""kfp's own client starts and watches runs on a server on loopback."""

import math
import re

import pytest
import yaml

from pipeline.orchestrators.kubeflow.login import KubeflowServer
from pipeline.orchestrators.run_client import RunFailedError, RunTimeoutError
from tests.pipeline.orchestrators import greeter
from tests.refusals import refused


def test_first_submission_creates_pipeline_and_experiment_and_runs_it(
    kubeflow, submit, spec_file, capsys
):
    run = submit(service_account="runner", pipeline_root="s3://bucket/root")
    (pipeline,) = kubeflow.pipelines
    (version,) = kubeflow.versions
    assert pipeline["display_name"] == "greetings"
    assert version["pipeline_spec"] == yaml.safe_load(spec_file.read_text())
    (experiment,) = kubeflow.experiments
    assert experiment["display_name"] == "spring"
    (sent,) = kubeflow.runs
    assert sent["display_name"] == "run-1"
    assert sent["experiment_id"] == experiment["experiment_id"]
    assert sent["service_account"] == "runner"
    assert sent["pipeline_version_reference"] == {
        "pipeline_id": pipeline["pipeline_id"],
        "pipeline_version_id": version["pipeline_version_id"],
    }
    config = sent["runtime_config"]
    assert config == {
        "pipeline_root": "s3://bucket/root",
        "parameters": greeter.PARAMETERS,
    }
    assert [type(value) for value in config["parameters"].values()] == [str, int, float]
    assert (run.run_id, run.state) == ("run-0", "PENDING")
    link = f"{kubeflow.host}/#/runs/details/run-0"
    assert run.link == link
    assert submit.lines == [f"run run-1 started: {link}"]
    assert capsys.readouterr().out == ""  # kfp prints three links of its own


def test_second_submission_adds_a_version_and_uses_the_experiment(kubeflow, submit):
    submit()
    submit(run_name="run-2")
    assert len(kubeflow.pipelines) == len(kubeflow.experiments) == 1
    assert [version["display_name"] for version in kubeflow.versions] == [
        "greetings",
        "run-2",
    ]
    second = kubeflow.runs[1]["pipeline_version_reference"]
    assert second["pipeline_version_id"] == kubeflow.versions[1]["pipeline_version_id"]
    assert kubeflow.runs[1]["experiment_id"] == kubeflow.runs[0]["experiment_id"]


def test_run_name_that_exists_is_refused(submit):
    submit()
    submit(run_name="run-2")
    with refused(
        "E-orchestrator-refused",
        got=re.compile("run-2 already exists"),
        advice="choose another `run_name`",
    ):
        submit(run_name="run-2")


def test_pipeline_and_experiment_are_in_the_namespace(kubeflow, submit, context_file):
    kubeflow.multi_user = True
    server = KubeflowServer(kubeflow.host, namespace="team")
    submit(server)
    submit(server, run_name="run-2")
    (pipeline,), (experiment,) = kubeflow.pipelines, kubeflow.experiments
    assert (pipeline["namespace"], experiment["namespace"]) == ("team", "team")
    assert len(kubeflow.versions) == 2
    assert not context_file.exists()


def test_server_of_several_users_needs_a_namespace(kubeflow, submit):
    kubeflow.multi_user = True
    got = f"missing, but {kubeflow.host} has several users"
    with refused("E-option-missing", setting="namespace", got=got):
        submit()


def test_namespace_of_kfps_own_context_is_used(kubeflow, submit, context_file):
    kubeflow.multi_user = True
    context_file.write_text('{"namespace": "team"}')
    submit()
    assert kubeflow.pipelines[0]["namespace"] == "team"


def test_waiting_reports_every_state_until_success(kubeflow, submit):
    kubeflow.states = ["PENDING", "RUNNING", "RUNNING", "SUCCEEDED"]
    run = submit(wait_seconds=math.inf)
    assert run.state == "SUCCEEDED"
    assert submit.lines[1:] == ["RUNNING", "SUCCEEDED"]


def test_cancelled_run_ends_the_waiting(kubeflow, submit):
    kubeflow.states = ["RUNNING", "CANCELING", "CANCELED"]
    with pytest.raises(RunFailedError, match="ended CANCELED; its logs"):
        submit(wait_seconds=math.inf)


def test_run_continues_after_the_time_to_wait(kubeflow, submit):
    kubeflow.states = ["RUNNING"]
    with pytest.raises(RunTimeoutError, match=r"still RUNNING after 0 s") as error:
        submit(wait_seconds=0)
    assert f"{kubeflow.host}/#/runs/details/run-0" in str(error.value)


def test_waiting_survives_a_restart_of_the_api_server(kubeflow, submit):
    kubeflow.outages = 3
    assert submit(wait_seconds=60).state == "SUCCEEDED"


def test_waiting_ends_if_the_api_server_stays_away(kubeflow, submit):
    kubeflow.outages = 99
    got = re.compile("503 .*the API server restarts")
    with refused("E-orchestrator-refused", got=got):
        submit(wait_seconds=60)


def test_token_that_expires_while_waiting_is_renewed(kubeflow, submit, monkeypatch):
    kubeflow.token = "first"
    kubeflow.states = ["RUNNING", "SUCCEEDED"]
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "first")

    def report(line):
        if line == "RUNNING":
            kubeflow.token = "second"
            monkeypatch.setenv("KF_PIPELINES_TOKEN", "second")

    assert submit(wait_seconds=60, report=report).state == "SUCCEEDED"


def test_waiting_ends_if_no_new_token_is_available(kubeflow, submit, monkeypatch):
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "first")
    kubeflow.token, kubeflow.states = "first", ["RUNNING"]

    def report(line):
        if line == "RUNNING":
            kubeflow.token = "second"

    with refused("E-orchestrator-refused", got=re.compile("401")):
        submit(wait_seconds=60, report=report)
