"""The address of Kubeflow Pipelines."""

import pytest

from contracts.errors import UsageError
from pipeline.orchestrators.kubeflow.login import KubeflowServer


def test_host_without_a_protocol_is_refused():
    with pytest.raises(UsageError, match=r"write https://ml\.example "):
        KubeflowServer("ml.example")


def test_ca_file_that_is_missing_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"the CA file .*ca\.pem is not a file"):
        KubeflowServer("https://ml.example", ca_file=tmp_path / "ca.pem")


def test_run_link_starts_with_the_host_or_the_address_of_the_user_interface(
    monkeypatch,
):
    server = KubeflowServer("https://ml.example/pipeline/")
    page = "/#/runs/details/run-0"
    assert server.run_link("run-0") == f"https://ml.example/pipeline{page}"
    monkeypatch.setenv("KF_PIPELINES_UI_ENDPOINT", "https://ui.example")
    assert server.run_link("run-0") == f"https://ui.example{page}"
