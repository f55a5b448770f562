"""Manifests have the fields and types that Kubernetes and its operators accept."""

import copy
import functools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from kubernetes import client
from kubernetes.utils import parse_quantity

from tests.deploy.manifests import DEPLOY, containers, files, manifests, pod

SCHEMAS = Path(__file__).parent / "schemas"
FOLDERS = ("flink", "serving", "monitoring", "runtime")
ALL = {
    (folder, kind): manifest
    for folder in FOLDERS
    for kind, manifest in manifests(folder).items()
}
OPERATORS = {
    "FlinkDeployment": "flinkdeployments.yaml",
    "PrometheusRule": "prometheusrules.yaml",
    "ServiceMonitor": "servicemonitors.yaml",
}
COMMON = {"apiVersion": {}, "kind": {}, "metadata": {}}


def closed(schema):
    """Returns a schema of an operator that allows no unknown fields.

    Kubernetes drops unknown fields of such a resource, so that a typo has no effect.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    result = dict(schema)
    if "properties" in schema:
        parts = schema["properties"].items()
        result["properties"] = {name: closed(part) for name, part in parts}
        result["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = closed(schema[key])
    return result


@functools.cache
def schema_of(kind):
    schema = closed(yaml.safe_load((SCHEMAS / OPERATORS[kind]).read_text()))
    # Kubernetes itself defines these.
    return schema | {"properties": schema["properties"] | COMMON}


def check_with_schema(manifest):
    # A package that only one of the stacks has.
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.Draft202012Validator(schema_of(manifest["kind"])).validate(manifest)
    check_with_client(manifest["metadata"], "V1ObjectMeta")


def check_with_client(manifest, model):
    """Checks that Kubernetes' client knows every field, and keeps its value."""
    manifest = copy.deepcopy(manifest)
    spec = manifest.get("spec", {}).get("jobTemplate", {}).get("spec", {})
    for rule in spec.get("podFailurePolicy", {}).get("rules", []):
        # Optional for Kubernetes, but the client requires it.
        rule.setdefault("onPodConditions", [])
    api = client.ApiClient()
    parsed = api.deserialize(SimpleNamespace(data=json.dumps(manifest)), model)
    assert lines(api.sanitize_for_serialization(parsed)) == lines(manifest)


def lines(manifest):
    return yaml.safe_dump(manifest).splitlines()


def check(manifest):
    if manifest["kind"] in OPERATORS:
        check_with_schema(manifest)
    else:
        check_with_client(manifest, f"V1{manifest['kind']}")


@pytest.mark.parametrize("manifest", ALL.values(), ids=map("-".join, ALL))
def test_manifest_is_valid(manifest):
    check(manifest)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        (("flink", "FlinkDeployment"), "spec.taskManagers", {}),
        (("flink", "FlinkDeployment"), "spec.flinkVersion", "v1_2"),
        (("flink", "FlinkDeployment"), "spec.flinkConfiguration.key", 8081),
        (
            ("flink", "FlinkDeployment"),
            "spec.taskManager.podTemplate.spec.initContainers.0.arg",
            [],
        ),
        (
            ("flink", "Deployment"),
            "spec.template.spec.containers.0.ports.0.containerPort",
            "8099",
        ),
        (("serving", "Deployment"), "spec.template.spec.gracePeriod", 1),
        (("serving", "Deployment"), "spec.template.spec.containers.0.name", None),
        (("serving", "Service"), "spec.ports.0.type", "TCP"),
        (("monitoring", "CronJob"), "spec.jobTemplate.spec.retries", 1),
        (("monitoring", "PrometheusRule"), "spec.groups.0.rules.0.labelz", {}),
        (("monitoring", "PrometheusRule"), "spec.groups.0.rules.1.for", 10),
        (("serving", "ServiceMonitor"), "spec.endpoints.0.pathh", "/metrics"),
        (("serving", "ServiceMonitor"), "spec.endpoints.0.interval", 30),
    ],
)
def test_fault_of_a_manifest_is_found(name, path, value):
    manifest = copy.deepcopy(ALL[name])
    part, (*keys, last) = manifest, path.split(".")
    for key in keys:
        part = part[int(key) if key.isdigit() else key]
    part[last] = value
    with pytest.raises(Exception, match=last):
        check(manifest)


@pytest.mark.parametrize("manifest", ALL.values(), ids=map("-".join, ALL))
def test_quantities_are_numbers_and_requests_are_within_limits(manifest):
    for container in containers(manifest).values():
        resources = container.get("resources", {})
        limits = resources.get("limits", {})
        for name, quantity in resources.get("requests", {}).items():
            limit = limits.get(name, quantity)
            assert 0 < parse_quantity(quantity) <= parse_quantity(limit)


@pytest.mark.parametrize("folder", FOLDERS)
def test_kustomization_has_every_file_and_sets_the_pipelines_image(folder):
    kustomization = yaml.safe_load((DEPLOY / folder / "kustomization.yaml").read_text())
    own = [name for name in kustomization["resources"] if not name.startswith("../")]
    assert sorted(own) == [file.name for file in files(folder)]
    (image,) = kustomization["images"]
    of_containers = [
        container.get("image")
        for manifest in manifests(folder).values()
        for container in containers(manifest).values()
    ]
    assert image["name"] in of_containers


@pytest.mark.parametrize("manifest", ALL.values(), ids=map("-".join, ALL))
def test_no_container_runs_as_root(manifest):
    for container in containers(manifest).values():
        of_container = container["securityContext"]
        settings = pod(manifest).get("securityContext", {}) | of_container
        assert settings["runAsNonRoot"] is True
        assert settings["runAsUser"] > 0
        assert of_container["allowPrivilegeEscalation"] is False
        assert of_container["capabilities"] == {"drop": ["ALL"]}
