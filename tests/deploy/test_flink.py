"""The Flink cluster fits the pipeline's image, its settings and Beam."""

import importlib.util
import re
import zipfile

import pytest
import yaml

from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import JOB_SERVERS, REPOSITORY
from pipeline.config.recipe import load_beam, load_config
from tests.deploy.manifests import (
    DEPLOY,
    arguments,
    containers,
    manifests,
    ports,
    service_ports,
)
from tools import image_rules

RECIPE = DEPLOY / "flink" / "recipe.yaml"
FLINK = manifests("flink")
CLUSTER = FLINK["FlinkDeployment"]
POOL = containers(CLUSTER)["beam-workers"]
JOB_SERVER = containers(FLINK["Deployment"])["job-server"]


@pytest.fixture
def beam():
    return load_beam(RECIPE)


def test_every_task_manager_has_its_own_pool_where_the_recipe_names_it(beam):
    sidecars = CLUSTER["spec"]["taskManager"]["podTemplate"]["spec"]["initContainers"]
    assert POOL in sidecars
    # Without it, the container would have to end before the TaskManager starts.
    assert POOL["restartPolicy"] == "Always"
    *_, module, address = POOL["command"]
    assert importlib.util.find_spec(module)
    assert beam.environment == "external"
    assert beam.environment_config == address
    host, _, port = address.partition(":")
    assert host == "localhost"  # only its own pod reaches it
    assert port in POOL["startupProbe"]["exec"]["command"][-1]


def test_recipe_names_the_service_of_the_job_server(beam):
    service = FLINK["Service"]
    namespace = yaml.safe_load((DEPLOY / "flink/kustomization.yaml").read_text())[
        "namespace"
    ]
    exposed = service_ports(service, JOB_SERVER)
    name = service["metadata"]["name"]
    assert beam.job_endpoint == f"{name}.{namespace}:{exposed['job']}"
    labels = FLINK["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    options = arguments(JOB_SERVER)
    for port, number in ports(JOB_SERVER).items():
        assert options[f"{port}-port"] == str(number)


def test_recipe_runs_beam_on_the_job_server_here_and_on_kubeflow(beam):
    assert beam.runner == "portable"
    assert f"--parallelism={beam.workers}" in beam_arguments(beam, is_here=False)
    lines = yaml.safe_load(RECIPE.read_text())["kubeflow"]
    config = load_config(REPOSITORY / "configs/sample.yaml", {"kubeflow": lines})
    assert config.kubeflow.beam == beam


def test_job_server_has_the_clusters_flink_and_the_images_beam():
    version = BeamConfig().flink_version
    assert CLUSTER["spec"]["flinkVersion"] == "v" + version.replace(".", "_")
    assert re.match(rf"flink:{re.escape(version)}\.\d", CLUSTER["spec"]["image"])
    stack = image_rules.newest_stack(REPOSITORY)
    lock = image_rules.read_lock(REPOSITORY / stack.lock, stack.python)
    assert JOB_SERVER["image"] == (
        f"apache/beam_flink{version}_job_server:{lock['apache-beam']}"
    )
    # Flink names the Service of its REST API after the cluster.
    rest = f"{CLUSTER['metadata']['name']}-rest:8081"
    assert arguments(JOB_SERVER)["flink-master"] == rest


def test_job_server_and_task_managers_see_the_same_artifacts():
    def mounts(container):
        return {m["name"]: m["mountPath"] for m in container["volumeMounts"]}

    flink = containers(CLUSTER)["flink-main-container"]
    shared = mounts(JOB_SERVER)["shared"]
    assert mounts(flink)["shared"] == mounts(POOL)["shared"] == shared
    assert arguments(JOB_SERVER)["artifacts-dir"].startswith(f"{shared}/")
    storage = CLUSTER["spec"]["flinkConfiguration"]["high-availability.storageDir"]
    assert storage.startswith(f"file://{shared}/")
    claim = FLINK["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for spec in (
        CLUSTER["spec"]["podTemplate"]["spec"],
        FLINK["Deployment"]["spec"]["template"]["spec"],
    ):
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        source = volumes["shared"]["persistentVolumeClaim"]
        assert source["claimName"] == claim["metadata"]["name"]


def test_no_list_is_in_two_templates_of_the_cluster():
    # The operator would merge their items by position.
    common = CLUSTER["spec"]["podTemplate"]["spec"]
    of_task_managers = CLUSTER["spec"]["taskManager"]["podTemplate"]["spec"]
    assert not common.keys() & of_task_managers.keys()


@pytest.mark.nightly
def test_flink_knows_every_setting_of_the_cluster():
    # The operator passes any key on, and Flink ignores those that it does not know.
    jars = [
        jar
        for part in ("core", "runtime")
        for jar in JOB_SERVERS.glob(
            f"*flink*/flink-{part}-{BeamConfig().flink_version}*"
        )
    ]
    if not jars:
        pytest.skip("Flink's classes are missing: run `make job-servers`")
    classes = b""
    for jar in jars:
        with zipfile.ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if "Options" in name]
            classes += b"".join(map(archive.read, names))
    for key in CLUSTER["spec"]["flinkConfiguration"]:
        # A constant of a class file has its length before it.
        assert len(key).to_bytes(2, "big") + key.encode() in classes, key


def test_network_policy_covers_the_cluster_and_the_job_server():
    (selector,) = FLINK["NetworkPolicy"]["spec"]["podSelector"]["matchExpressions"]
    labels = FLINK["Deployment"]["spec"]["template"]["metadata"]["labels"]
    # Flink labels its pods with `app` and the cluster's name.
    assert selector["key"] == "app"
    assert set(selector["values"]) == {CLUSTER["metadata"]["name"], labels["app"]}
