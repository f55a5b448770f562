"""The server's manifests fit the `serve` command and what it serves."""

import re
from pathlib import Path

import pytest

from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY
from serving import sampling
from serving.access import trusted_hosts
from serving.settings import SamplingSettings
from tests.deploy.manifests import (
    containers,
    manifests,
    parse,
    pod,
    ports,
    service_ports,
)
from tests.serving import small_models
from tests.serving.conftest import running

SERVING = manifests("serving")
SPEC = pod(SERVING["Deployment"])
SERVER = containers(SERVING["Deployment"])["server"]
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


@pytest.fixture
def options():
    """The options of the command, as it parses the container's arguments."""
    return parse(SERVER)


def test_command_is_that_of_the_wheel():
    setup = (REPOSITORY / "setup.py").read_text()
    (command,) = SERVER["command"]
    assert f'"{command} = {main.callback.__module__}:main"' in setup


def test_container_listens_on_its_ports_for_every_host(options):
    assert ports(SERVER) == {"http": options["port"], "grpc": options["grpc_port"]}
    assert options["host"] == "0.0.0.0"
    # Prometheus sends the pod's address.
    assert trusted_hosts(options["host"], options["allowed_hosts"]) == ["*"]


def test_model_is_in_the_volume_that_is_claimed(options):
    mounts = {mount["name"]: mount for mount in SERVER["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in SPEC["volumes"]}
    assert Path(mounts["models"]["mountPath"]) in Path(options["model"]).parents
    assert mounts["models"]["readOnly"] is True
    source = volumes["models"]["persistentVolumeClaim"]
    claim = SERVING["PersistentVolumeClaim"]
    assert source["claimName"] == claim["metadata"]["name"]


def test_service_monitor_and_budget_lead_to_the_servers_pods():
    labels = SERVING["Deployment"]["spec"]["template"]["metadata"]["labels"]
    service, monitor = SERVING["Service"], SERVING["ServiceMonitor"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service_ports(service, SERVER) == ports(SERVER)
    selected = monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= service["metadata"]["labels"].items()
    for endpoint in monitor["spec"]["endpoints"]:
        assert endpoint["port"] in ports(SERVER)
    budget = SERVING["PodDisruptionBudget"]["spec"]
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert budget["maxUnavailable"] < SERVING["Deployment"]["spec"]["replicas"]


def test_pod_has_time_to_drain(options):
    *_, sleep = SERVER["lifecycle"]["preStop"]["exec"]["command"]
    needed = int(sleep) + options["drain_seconds"] + sampling.CLOSE_SECONDS
    assert SPEC["terminationGracePeriodSeconds"] > needed


@pytest.mark.slow
def test_probes_and_metrics_are_served_to_clients_that_send_an_address(tmp_path):
    small_models.save_counter(tmp_path / "counter" / "1", 1)
    (endpoint,) = SERVING["ServiceMonitor"]["spec"]["endpoints"]
    requests = [SERVER[probe]["httpGet"] for probe in PROBES] + [endpoint]
    with running(tmp_path / "counter") as server:
        for request in requests:
            assert request["port"] == "http"
            response = server.http.get(request["path"])
            assert response.status_code == 200, request
        assert "serving_loaded_versions 1.0" in response.text


@pytest.mark.slow
def test_counters_whose_increase_is_an_alert_begin_at_0(tmp_path):
    # A series that begins at 1 has no increase: its first event would raise no alert.
    rule = manifests("monitoring")["PrometheusRule"]
    expressions = [
        rule["expr"] for group in rule["spec"]["groups"] for rule in group["rules"]
    ]
    pattern = r"increase\(\s*(serving_\w+){(\w+)=~?\"([^\"]+)\"}"
    found = re.findall(pattern, " ".join(expressions))
    assert len(found) == " ".join(expressions).count("increase(")
    small_models.save_counter(tmp_path / "counter" / "1", 1)
    (tmp_path / "samples").mkdir()
    sampled = SamplingSettings(tmp_path / "samples", 1.0, 1 << 20)
    with running(tmp_path / "counter", sampling=sampled, check_rate=1.0) as server:
        for name, label, values in found:
            for value in values.split("|"):
                assert server.sample(name, **{label: value}) == 0.0, (name, value)
