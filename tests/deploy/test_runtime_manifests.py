"""The runtime's manifests and image fit the command `bert-runtime serve`."""

import json
import re
from pathlib import Path

import yaml

from bert_runtime.cli.main import main
from pipeline.config.paths import REPOSITORY
from serving import sampling
from serving.access import trusted_hosts
from tests.deploy.manifests import (
    DEPLOY,
    containers,
    manifests,
    parse,
    pod,
    ports,
    service_ports,
)
from tools import image_rules

RUNTIME = manifests("runtime")
SPEC = pod(RUNTIME["Deployment"])
SERVER = containers(RUNTIME["Deployment"])["server"]
OPTIONS = parse(SERVER, main)
IMAGE = image_rules.image_steps(
    image_rules.read_dockerfile(REPOSITORY, dockerfile=image_rules.RUNTIME_DOCKERFILE)
)


def words(keyword):
    """Returns the words of an instruction of the Dockerfile."""
    (value,) = (value for key, value in IMAGE if key == keyword)
    return json.loads(value[value.index("[") :])


def test_container_runs_the_images_entry_point():
    assert words("ENTRYPOINT") == ["bert-runtime"]
    assert "command" not in SERVER
    assert SERVER["args"][0] == words("CMD")[0] == "serve"


def test_container_listens_on_its_port_for_every_host():
    assert ports(SERVER) == {"http": OPTIONS["port"]}
    assert trusted_hosts(OPTIONS["host"], OPTIONS["allowed_hosts"]) == ["*"]
    service = RUNTIME["Service"]
    assert service_ports(service, SERVER) == ports(SERVER)
    labels = RUNTIME["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_image_listens_as_the_container_does_and_its_health_check_calls_it():
    options = parse({"args": words("CMD")}, main)
    assert options["host"] == OPTIONS["host"]
    assert options["port"] == OPTIONS["port"] == int(dict(IMAGE)["EXPOSE"])
    assert f":{options['port']}/readyz" in words("HEALTHCHECK")[-1]
    assert words("HEALTHCHECK")[0] == "python"
    mount = SERVER["volumeMounts"][0]["mountPath"]
    assert options["model"] == mount


def test_image_runs_as_a_numeric_user_that_is_not_root():
    user, group = dict(IMAGE)["USER"].split(":")
    security = SPEC["securityContext"]
    assert (int(user), int(group)) == (security["runAsUser"], security["runAsGroup"])
    assert int(user) > 0
    assert SERVER["securityContext"]["readOnlyRootFilesystem"] is True


def test_model_is_in_the_volume_that_is_claimed():
    (mount,) = (m for m in SERVER["volumeMounts"] if m["name"] == "models")
    assert Path(mount["mountPath"]) in Path(OPTIONS["model"]).parents
    assert mount["readOnly"] is True
    (volume,) = (v for v in SPEC["volumes"] if v["name"] == "models")
    claim = RUNTIME["PersistentVolumeClaim"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    # Runs push to the volume of the other server.
    assert claim == manifests("serving")["PersistentVolumeClaim"]


def test_pod_has_time_to_drain():
    *_, sleep = SERVER["lifecycle"]["preStop"]["exec"]["command"]
    needed = int(sleep) + OPTIONS["drain_seconds"] + sampling.CLOSE_SECONDS
    assert SPEC["terminationGracePeriodSeconds"] > needed


def test_probes_are_those_of_the_other_server():
    other = containers(manifests("serving")["Deployment"])["server"]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert SERVER[probe]["httpGet"] == other[probe]["httpGet"]


def test_tag_is_the_version_of_the_runtime():
    kustomization = yaml.safe_load((DEPLOY / "runtime/kustomization.yaml").read_text())
    setup = (DEPLOY / "runtime" / "setup.py").read_text()
    (version,) = re.findall('^VERSION = "(.+)"', setup, re.MULTILINE)
    assert kustomization["images"][0]["newTag"] == version
