"""How kfp's client logs in, and the errors of servers that are unreachable."""

import json
import re
import socket
import ssl
import threading

import kfp.client.auth
import pytest

from pipeline.orchestrators.kubeflow import kfp_client
from pipeline.orchestrators.kubeflow.login import KubeflowServer
from tests.pipeline.orchestrators import credentials
from tests.pipeline.orchestrators.kubeflow.kubeflow_server import (
    KubeflowPipelines,
    handler,
)
from tests.refusals import refused


@pytest.mark.parametrize(
    ("variable", "value", "header", "sent"),
    [
        ("KF_PIPELINES_TOKEN", "a-secret\n", "authorization", "Bearer a-secret"),
        ("KF_PIPELINES_COOKIES", "session=abc", "cookie", "session=abc"),
    ],
)
def test_secret_of_the_environment_is_sent(
    kubeflow, submit, monkeypatch, variable, value, header, sent
):
    monkeypatch.setenv(variable, value)
    submit(wait_seconds=60)
    assert {request.headers[header] for request in kubeflow.requests} == {sent}


def test_refused_token_is_not_printed(kubeflow, submit, monkeypatch):
    kubeflow.token = "another"
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "a-secret")
    got = re.compile(
        r"401 Unauthorized.*the token Bearer \$KF_PIPELINES_TOKEN is not valid"
    )
    with refused("E-orchestrator-refused", setting="host", got=got) as error:
        submit()
    assert "log in with a bearer token in $KF_PIPELINES_TOKEN" in error.value.advice
    assert "a-secret" not in str(error.value)
    assert len(kubeflow.requests) == 1


@pytest.mark.usefixtures("no_login")
@pytest.mark.parametrize(
    ("login", "token", "setting", "advice"),
    [
        ({}, "a-se\ncret", "KF_PIPELINES_TOKEN", ""),
        ({"pod_token": True}, "", "pod_token", "mount .*KF_PIPELINES_SA_TOKEN_PATH"),
        ({"iap_client_id": "1.apps"}, "", "GOOGLE_APPLICATION_CREDENTIALS", "key file"),
        (
            {"iap_client_id": "1.apps", "iap_desktop_client_id": "2.apps"},
            "",
            kfp_client.IAP_SECRET_VARIABLE,
            "the secret of its client ID",
        ),
    ],
)
def test_incomplete_login_is_refused(
    kubeflow, submit, monkeypatch, login, token, setting, advice
):
    monkeypatch.setenv("KF_PIPELINES_TOKEN", token)
    with refused(
        "E-orchestrator-refused", setting=setting, advice=re.compile(advice)
    ) as error:
        submit(KubeflowServer(kubeflow.host, **login))
    assert "a-se" not in str(error.value)


def test_forbidden_request_is_reported_with_the_ways_to_log_in(kubeflow, submit):
    kubeflow.forbids = "cannot list pipelines in namespace team"
    got = re.compile(r"403 Forbidden\): cannot list")
    advice = re.compile("KF_PIPELINES_TOKEN.*COOKIES")
    with refused("E-orchestrator-refused", setting="host", got=got, advice=advice):
        submit()


def test_token_of_the_pod_is_sent(kubeflow, submit, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("of-the-pod")
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    kubeflow.token = "of-the-pod"
    assert submit(KubeflowServer(kubeflow.host, pod_token=True)).run_id == "run-0"


def test_service_account_gets_through_identity_aware_proxy(
    kubeflow, submit, log_in, monkeypatch
):
    monkeypatch.setattr(kfp.client.auth, "OAUTH_TOKEN_URI", log_in())
    kubeflow.token = credentials.ID_TOKEN
    server = KubeflowServer(kubeflow.host, iap_client_id="1.apps.example")
    assert submit(server).run_id == "run-0"


def test_log_in_page_is_not_mistaken_for_the_api(kubeflow, submit):
    kubeflow.shows_login = True
    got = re.compile("responded with text/html.* a log-in page")
    with refused("E-orchestrator-refused", setting="host", got=got):
        submit()


def test_host_without_a_server_cannot_be_reached(submit):
    with socket.socket() as unused:
        unused.bind(("localhost", 0))
        host = f"http://localhost:{unused.getsockname()[1]}"
    with refused(
        "E-network-failed",
        setting="host",
        got=re.compile(f"^{host} cannot be reached"),
        advice=re.compile("port-forward"),
    ):
        submit(KubeflowServer(host))


@pytest.mark.parametrize(
    ("path", "got"),
    [
        ("pipelines", "cannot be reached .*timed out"),
        ("runs", "did not respond in 0.2"),
    ],
)
def test_server_that_hangs_after_login_times_out(submit, serve, monkeypatch, path, got):
    monkeypatch.setattr(kfp_client, "TIMEOUT", (0.2, 0.2))
    monkeypatch.setattr(kfp_client, "WRITE_TIMEOUT", 0.2)
    released = threading.Event()

    class Hanging(handler(KubeflowPipelines())):
        def _request(self):
            request = super()._request()
            if request.path.endswith(path):
                released.wait(20)
            return request

    host = f"http://localhost:{serve(Hanging).server_port}"
    try:
        with refused("E-network-failed", got=re.compile(f"^{host} {got}")):
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
    got = re.compile(f"^http://{host}:.* clear text")
    advice = re.compile("https://.* TLS.*forward")
    with refused("E-settings-refused", setting="host", got=got, advice=advice):
        submit(server)
    assert kubeflow.requests == []


def test_credentials_of_kfps_context_are_not_sent_in_clear_text(
    submit, kubeflow, context_file
):
    context = {"namespace": "team", "client_authentication_cookie": "session=abc"}
    context_file.write_text(json.dumps(context))
    server = KubeflowServer(kubeflow.host.replace("localhost", "0.0.0.0"))
    with refused("E-settings-refused", got=re.compile("in clear text")):
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


def test_private_authority_is_trusted_with_its_ca_file(submit, tmp_path, serve):
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    credentials.write_certificate(certificate, key)
    server = serve(handler(KubeflowPipelines()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    host = f"https://localhost:{server.server_port}"
    with refused("E-network-failed", advice=re.compile("use `ca_file=FILE`")):
        submit(KubeflowServer(host))
    assert submit(KubeflowServer(host, ca_file=certificate)).state == "PENDING"
