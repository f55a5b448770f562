"""The address of Kubeflow Pipelines."""

from pathlib import Path

import pytest

from pipeline.orchestrators.kubeflow.login import KubeflowServer
from tests.refusals import refused


@pytest.mark.parametrize(
    ("name", "setting", "login"),
    [
        ("E-settings-refused", "host", {"host": "ml.example"}),
        ("E-data-not-found", "ca_file", {"host": "https://ml", "ca_file": Path("a")}),
    ],
)
def test_impossible_login_is_refused(name, setting, login):
    with refused(name, setting=setting):
        KubeflowServer(**login)


def test_run_link_starts_with_the_host_or_the_address_of_the_user_interface(
    monkeypatch,
):
    server = KubeflowServer("https://ml.example/pipeline/")
    page = "/#/runs/details/run-0"
    assert server.run_link("run-0") == f"https://ml.example/pipeline{page}"
    monkeypatch.setenv("KF_PIPELINES_UI_ENDPOINT", "https://ui.example")
    assert server.run_link("run-0") == f"https://ui.example{page}"
