"""The manifests, parsed."""

import click
import yaml

from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
NO_MANIFESTS = ("kustomization.yaml", "recipe.yaml", "sampling.yaml")


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


def pod(manifest):
    """Returns the pod of a Deployment or a CronJob; empty for other kinds."""
    spec = manifest["spec"]
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    return spec.get("template", {}).get("spec", {})


def containers(manifest):
    """Returns the containers and sidecars of a manifest by name."""
    spec = manifest["spec"]
    pods = [pod(manifest)]
    for part in (spec, spec.get("jobManager", {}), spec.get("taskManager", {})):
        pods.append(part.get("podTemplate", {}).get("spec", {}))
    keys = ("containers", "initContainers")
    lists = [part.get(key, []) for part in pods for key in keys]
    return {container["name"]: container for some in lists for container in some}


def parse(container, program=main):
    """Returns the options of a container's command of ours, as it parses them."""
    name, *rest = container["args"]
    context = click.Context(program.commands[name])
    program.commands[name].parse_args(context, list(rest))
    return context.params


def arguments(container):
    """Returns the arguments `--NAME=VALUE` of a container by name."""
    pairs = [argument.partition("=") for argument in container["args"]]
    return {name.removeprefix("--"): value for name, equals, value in pairs if equals}


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
