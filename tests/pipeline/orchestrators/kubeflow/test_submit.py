"""The stock kfp client submits to a server on loopback that speaks kfp's REST API."""

import json
import math
import socket
import ssl
import threading
from http.server import ThreadingHTTPServer

import kfp
import kfp.client.auth
import pytest
import yaml

from pipeline.config.errors import UsageError
from pipeline.orchestrators.kubeflow import client
from pipeline.orchestrators.kubeflow.server import KubeflowServer
from pipeline.orchestrators.kubeflow.submit import submit_to_kubeflow
from pipeline.orchestrators.submitted_run import RunFailedError, RunTimeoutError
from tests.pipeline.orchestrators import compiled, credentials
from tests.pipeline.orchestrators.kubeflow.kubeflow_server import (
    KubeflowPipelines,
    handler,
)


@pytest.fixture
def submit(kubeflow, spec_file):
    """A function that submits; what it reports is in its `lines`."""

    def run(server=None, package=spec_file, **changes):
        arguments = {
            "server": server or KubeflowServer(kubeflow.host),
            "pipeline_name": "greetings",
            "experiment": "spring",
            "run_name": "run-1",
            "parameters": compiled.PARAMETERS,
            "poll_seconds": 0,
            "report": run.lines.append,
        }
        return submit_to_kubeflow(package, **(arguments | changes))

    run.lines = []
    return run


def spec_of(file):
    return yaml.safe_load(file.read_text())


def test_first_submission_makes_pipeline_and_experiment_and_runs_it(
    kubeflow, submit, spec_file, capsys
):
    run = submit(pipeline_root="s3://bucket/root", service_account="runner")
    (pipeline,) = kubeflow.pipelines
    (version,) = kubeflow.versions
    assert pipeline["display_name"] == "greetings"
    assert version["pipeline_spec"] == spec_of(spec_file)
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
        "parameters": compiled.PARAMETERS,
    }
    assert [type(value) for value in config["parameters"].values()] == [str, int, float]
    assert (run.run_id, run.state) == ("run-0", "PENDING")
    link = f"{kubeflow.host}/#/runs/details/run-0"
    assert run.link == link
    assert submit.lines == [f"run run-1 started: {link}"]
    assert capsys.readouterr().out == ""  # kfp prints three links of its own


def test_second_submission_makes_a_version_and_takes_the_experiment(kubeflow, submit):
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


def test_version_name_that_is_taken_is_told(submit):
    submit()
    submit(run_name="run-2")
    with pytest.raises(UsageError, match=r"run-2 already exists.*another name"):
        submit(run_name="run-2")


@pytest.mark.parametrize("enabled", [True, False])
def test_caching_is_uploaded_with_the_pipeline(kubeflow, submit, enabled):
    submit(enable_caching=enabled)
    tasks = kubeflow.versions[0]["pipeline_spec"]["root"]["dag"]["tasks"]
    assert tasks["Greeter"]["cachingOptions"] == {"enableCache": enabled}


def test_namespace_goes_with_pipeline_and_experiment(kubeflow, submit, context_file):
    kubeflow.multi_user = True
    server = KubeflowServer(kubeflow.host, namespace="team")
    submit(server)
    submit(server, run_name="run-2")
    (pipeline,), (experiment,) = kubeflow.pipelines, kubeflow.experiments
    assert (pipeline["namespace"], experiment["namespace"]) == ("team", "team")
    assert len(kubeflow.versions) == 2
    assert not context_file.exists()


def test_server_of_several_users_wants_a_namespace(kubeflow, submit):
    kubeflow.multi_user = True
    with pytest.raises(UsageError, match="several users: give the namespace"):
        submit()


def test_namespace_of_kfps_own_context_is_used(kubeflow, submit, context_file):
    kubeflow.multi_user = True
    context_file.write_text('{"namespace": "team"}')
    submit()
    assert kubeflow.pipelines[0]["namespace"] == "team"


def test_link_leads_to_another_address_of_the_user_interface(submit, monkeypatch):
    monkeypatch.setenv("KF_PIPELINES_UI_ENDPOINT", "https://ui.example")
    assert submit().link == "https://ui.example/#/runs/details/run-0"


def test_waiting_tells_every_state_until_success(kubeflow, submit):
    kubeflow.states = ["PENDING", "RUNNING", "RUNNING", "SUCCEEDED"]
    run = submit(wait_seconds=math.inf)
    assert run.state == "SUCCEEDED"
    assert submit.lines[1:] == ["RUNNING", "SUCCEEDED"]


def test_failed_run_names_the_tasks_that_failed(kubeflow, submit):
    kubeflow.states = ["RUNNING", "FAILED"]
    tasks = [
        {"display_name": "root", "state": "FAILED"},
        {"display_name": "Greeter", "state": "FAILED", "error": {"message": "no GPU"}},
        {"display_name": "Reader", "state": "SUCCEEDED"},
    ]
    kubeflow.failure = {
        "error": {"code": 2, "message": "it did not work"},
        "run_details": {"task_details": tasks},
    }
    with pytest.raises(
        RunFailedError, match=r"ended FAILED: it did not work; Greeter no GPU; its"
    ) as failure:
        submit(wait_seconds=60)
    assert failure.value.run.state == "FAILED"
    assert failure.value.run.link in str(failure.value)
    assert "Reader" not in str(failure.value)


def test_cancelled_run_ends_the_waiting(kubeflow, submit):
    kubeflow.states = ["RUNNING", "CANCELING", "CANCELED"]
    with pytest.raises(RunFailedError, match="ended CANCELED; its logs"):
        submit(wait_seconds=math.inf)


def test_run_that_takes_longer_than_waited_for_goes_on(kubeflow, submit):
    kubeflow.states = ["RUNNING"]
    with pytest.raises(RunTimeoutError, match=r"RUNNING after 0 s .* goes on") as error:
        submit(wait_seconds=0)
    assert error.value.run.link in str(error.value)


def test_api_server_that_restarts_does_not_end_the_waiting(kubeflow, submit):
    kubeflow.outages = 3
    assert submit(wait_seconds=60).state == "SUCCEEDED"


def test_api_server_that_stays_away_ends_the_waiting(kubeflow, submit):
    kubeflow.outages = 99
    with pytest.raises(UsageError, match=r"503 .*the API server restarts"):
        submit(wait_seconds=60)


def test_unknown_parameter_is_refused_before_anything_is_sent(kubeflow, submit):
    with pytest.raises(UsageError, match="no parameter epochs; it has data-version"):
        submit(parameters={**compiled.PARAMETERS, "epochs": 1})
    assert kubeflow.requests == []


def test_job_of_vertex_ai_is_refused_before_anything_is_sent(
    kubeflow, submit, job_file
):
    with pytest.raises(UsageError, match=r"does not end with \.yaml or \.yml"):
        submit(package=job_file)
    assert kubeflow.requests == []


def test_token_of_the_environment_is_sent(kubeflow, submit, monkeypatch):
    kubeflow.token = "a-secret"
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "a-secret\n")
    submit(wait_seconds=60)
    sent = {request.headers["authorization"] for request in kubeflow.requests}
    assert sent == {"Bearer a-secret"}


def test_token_that_is_refused_is_not_shown(kubeflow, submit, monkeypatch):
    kubeflow.token = "another"
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "a-secret")
    with pytest.raises(UsageError, match=r"401 Unauthorized.*To log in") as error:
        submit()
    assert "the token Bearer $KF_PIPELINES_TOKEN is not valid" in str(error.value)
    assert "a-secret" not in str(error.value)
    assert len(kubeflow.requests) == 1


def test_token_that_no_header_can_carry_is_not_shown(submit, monkeypatch):
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "a-se\ncret")
    with pytest.raises(UsageError, match=r"^\$KF_PIPELINES_TOKEN has char") as error:
        submit()
    assert "a-se" not in str(error.value)


def test_what_is_forbidden_is_told(kubeflow, submit):
    kubeflow.forbids = "cannot list pipelines in namespace team"
    with pytest.raises(
        UsageError, match=r"403 Forbidden\): cannot list.*KF_PIPELINES_TOKEN.*COOKIES"
    ):
        submit()


def test_token_that_ends_while_waiting_is_renewed(kubeflow, submit, monkeypatch):
    kubeflow.token = "first"
    kubeflow.states = ["RUNNING", "SUCCEEDED"]
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "first")

    def report(line):
        if line == "RUNNING":
            kubeflow.token = "second"
            monkeypatch.setenv("KF_PIPELINES_TOKEN", "second")

    assert submit(wait_seconds=60, report=report).state == "SUCCEEDED"


def test_token_that_ends_for_good_ends_the_waiting(kubeflow, submit, monkeypatch):
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "first")
    kubeflow.token, kubeflow.states = "first", ["RUNNING"]

    def report(line):
        if line == "RUNNING":
            kubeflow.token = "second"

    with pytest.raises(UsageError, match="401"):
        submit(wait_seconds=60, report=report)


def test_cookies_of_the_environment_are_sent(kubeflow, submit, monkeypatch):
    monkeypatch.setenv("KF_PIPELINES_COOKIES", "authservice_session=abc")
    submit()
    sent = {request.headers["cookie"] for request in kubeflow.requests}
    assert sent == {"authservice_session=abc"}


def test_token_of_the_pod_is_sent(kubeflow, submit, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("of-the-pod")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    kubeflow.token = "of-the-pod"
    assert submit(KubeflowServer(kubeflow.host, pod_token=True)).run_id == "run-0"


def test_token_of_the_pod_that_is_not_there_is_told(kubeflow, submit):
    with pytest.raises(UsageError, match=r"mount it .*KF_PIPELINES_SA_TOKEN_PATH"):
        submit(KubeflowServer(kubeflow.host, pod_token=True))


def test_service_account_gets_through_identity_aware_proxy(
    kubeflow, submit, serve, monkeypatch, tmp_path
):
    port = serve(credentials.TokenEndpoint).server_port
    endpoint = f"http://localhost:{port}/token"
    key = credentials.write_service_account(tmp_path / "key.json", endpoint)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    monkeypatch.setattr(kfp.client.auth, "OAUTH_TOKEN_URI", endpoint)
    kubeflow.token = credentials.ID_TOKEN
    server = KubeflowServer(kubeflow.host, iap_client_id="1.apps.example")
    assert submit(server).run_id == "run-0"


def test_identity_aware_proxy_without_credentials_says_what_to_set(
    kubeflow, submit, monkeypatch, tmp_path
):
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    server = KubeflowServer(kubeflow.host, iap_client_id="1.apps.example")
    with pytest.raises(UsageError, match=r"Proxy of .*GOOGLE_APPLICATION_CREDENTIALS"):
        submit(server)


def test_desktop_app_without_its_secret_is_refused(kubeflow, submit):
    server = KubeflowServer(
        kubeflow.host, iap_client_id="1.apps", iap_desktop_client_id="2.apps"
    )
    with pytest.raises(UsageError, match=r"2\.apps needs its secret: set \$KF_PIPELI"):
        submit(server)


def test_page_to_log_in_on_is_not_taken_for_the_api(kubeflow, submit):
    kubeflow.shows_login = True
    with pytest.raises(UsageError, match=r"responded with text/html.*a page to log in"):
        submit()


def test_host_that_nobody_listens_on_is_told(submit):
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        host = f"http://localhost:{unused.getsockname()[1]}"
    with pytest.raises(UsageError, match=f"{host} cannot be reached .*port-forward"):
        submit(KubeflowServer(host))


def test_host_that_never_answers_is_given_up(submit, monkeypatch):
    monkeypatch.setattr(client, "TIMEOUT", (0.2, 0.2))
    with socket.socket() as silent:
        silent.bind(("localhost", 0))
        silent.listen()
        host = f"http://localhost:{silent.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"{host} cannot be reached .*timed out"):
            submit(KubeflowServer(host))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("pipelines", "cannot be reached .*timed out"),
        ("runs", "did not respond in 0.2"),
    ],
)
def test_server_that_hangs_after_login_is_given_up(
    submit, serve, monkeypatch, path, message
):
    monkeypatch.setattr(client, "TIMEOUT", (0.2, 0.2))
    monkeypatch.setattr(client, "WRITE_TIMEOUT", 0.2)
    released = threading.Event()

    class Hanging(handler(KubeflowPipelines())):
        def _request(self):
            request = super()._request()
            if request.path.endswith(path):
                released.wait(20)
            return request

    host = f"http://localhost:{serve(Hanging).server_port}"
    try:
        with pytest.raises(UsageError, match=f"{host} .*{message}"):
            submit(KubeflowServer(host))
    finally:
        released.set()


@pytest.mark.parametrize("variable", ["KF_PIPELINES_TOKEN", "KF_PIPELINES_COOKIES"])
@pytest.mark.parametrize("host", ["0.0.0.0", "localhost.example"])
def test_credentials_are_not_sent_in_clear_text(
    submit, kubeflow, monkeypatch, variable, host
):
    monkeypatch.setenv(variable, "a-secret")
    server = KubeflowServer(kubeflow.host.replace("localhost", host))
    with pytest.raises(
        UsageError, match=f"http://{host}:.* clear text.* https://.* TLS.*forward"
    ):
        submit(server)
    assert kubeflow.requests == []


def test_namespace_of_the_context_does_not_skip_the_check_of_credentials(
    submit, kubeflow, context_file
):
    context = {"namespace": "team", "client_authentication_cookie": "session=abc"}
    context_file.write_text(json.dumps(context))
    server = KubeflowServer(kubeflow.host.replace("localhost", "0.0.0.0"))
    with pytest.raises(UsageError, match="in clear text"):
        submit(server)
    assert kubeflow.requests == []


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1"])
def test_credentials_are_sent_through_a_port_forward(
    submit, kubeflow, monkeypatch, address
):
    kubeflow.token = "a-secret"
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "a-secret")
    host = kubeflow.host.replace("localhost", address)
    assert submit(KubeflowServer(host)).run_id == "run-0"


def test_host_without_a_protocol_is_refused():
    with pytest.raises(UsageError, match=r"write https://ml\.example "):
        KubeflowServer("ml.example")


def test_ca_file_that_is_missing_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"the CA file .*ca\.pem is not a file"):
        KubeflowServer("https://ml.example", ca_file=tmp_path / "ca.pem")


def test_private_authority_is_trusted_once_it_is_given(submit, tmp_path, serve):
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    credentials.write_certificate(certificate, key)
    server = serve(handler(KubeflowPipelines()))
    assert isinstance(server, ThreadingHTTPServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    host = f"https://localhost:{server.server_port}"
    with pytest.raises(UsageError, match=r"cannot be reached .*give that as CA file"):
        submit(KubeflowServer(host))
    assert submit(KubeflowServer(host, ca_file=certificate)).state == "PENDING"
