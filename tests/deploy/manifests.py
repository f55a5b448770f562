"""The manifests, parsed."""

import yaml

from pipeline.config.paths import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
NO_MANIFESTS = ("kustomization.yaml", "recipe.yaml")


def files(folder):
    """Returns the files of a folder's manifests."""
    paths = sorted((DEPLOY / folder).glob("*.yaml"))
    return [path for path in paths if path.name not in NO_MANIFESTS]


def manifests(folder):
    """Returns the manifests of a folder by their kind."""
    parsed = [m for file in files(folder) for m in yaml.safe_load_all(file.read_text())]
    by_kind = {manifest["kind"]: manifest for manifest in parsed}
    assert len(by_kind) == len(parsed)
    return by_kind


def containers(manifest):
    """Returns the containers and sidecars of a manifest by name."""
    spec = manifest["spec"]
    templates = [spec.get("template", {})]
    for part in (spec, spec.get("jobManager", {}), spec.get("taskManager", {})):
        templates.append(part.get("podTemplate", {}))
    pods = [template.get("spec", {}) for template in templates]
    lists = [
        pod.get(key, []) for pod in pods for key in ("containers", "initContainers")
    ]
    return {container["name"]: container for some in lists for container in some}


def arguments(container):
    """Returns the arguments `--NAME=VALUE` of a container by name."""
    pairs = [argument.partition("=") for argument in container["args"]]
    return {name.removeprefix("--"): value for name, _, value in pairs}


def ports(container):
    """Returns the ports of a container by name."""
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def service_ports(service, container):
    """Returns the ports of a Service by name, and checks that they are the container's.

    Args:
      service: The Service.
      container: The container that it leads to.
    """
    named = {port["name"]: port for port in service["spec"]["ports"]}
    assert {port["targetPort"] for port in named.values()} <= ports(container).keys()
    return {name: port["port"] for name, port in named.items()}
