"""The address of Kubeflow Pipelines."""

import re
from pathlib import Path

import pytest

from pipeline.orchestrators.kubeflow.login import KubeflowServer
from tests.refusals import refused


@pytest.mark.parametrize(
    ("login", "name", "setting", "got"),
    [
        ({"host": "ml.example"}, "E-settings-refused", "host", "has no protocol"),
        ({"host": "http://a:b@ml"}, "E-secret-visible", None, "password"),
        (
            {"host": "https://ml", "ca_file": Path("absent.pem")},
            "E-data-not-found",
            "ca_file",
            r"^absent\.pem is not a file",
        ),
    ],
)
def test_impossible_login_is_refused(login, name, setting, got):
    with refused(name, got=re.compile(got)) as caught:
        KubeflowServer(**login)
    assert setting is None or caught.value.setting == setting


def test_run_link_starts_with_the_host_or_the_address_of_the_user_interface(
    monkeypatch,
):
    server = KubeflowServer("https://ml.example/pipeline/")
    page = "/#/runs/details/run-0"
    assert server.run_link("run-0") == f"https://ml.example/pipeline{page}"
    monkeypatch.setenv("KF_PIPELINES_UI_ENDPOINT", "https://ui.example")
    assert server.run_link("run-0") == f"https://ui.example{page}"
