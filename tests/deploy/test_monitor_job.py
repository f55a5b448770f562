"""The job of `monitor`, and the server that keeps a sample for it."""

import copy
from pathlib import Path

import pytest
import yaml

from pipeline import exit_status
from pipeline.cli.main import main
from tests.deploy.manifests import DEPLOY, containers, manifests, parse, pod
from tests.deploy.test_schemas import check

FOLDER = DEPLOY / "monitoring"
MONITORING = manifests("monitoring")
JOB = MONITORING["CronJob"]
MONITOR = containers(JOB)["monitor"]


def patched(manifest):
    """Returns a manifest with the operations of the patch, of which all add."""
    result = copy.deepcopy(manifest)
    for operation in yaml.safe_load((FOLDER / "sampling.yaml").read_text()):
        assert operation["op"] == "add"
        *keys, end = operation["path"].lstrip("/").split("/")
        assert end == "-"
        part = result
        for key in keys:
            part = part[int(key)] if isinstance(part, list) else part[key]
        part.append(operation["value"])
    return result


@pytest.fixture
def server():
    """The Deployment that the kustomization leads to."""
    (patch,) = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["patches"]
    assert patch["path"] == "sampling.yaml"
    deployment = manifests("serving")[patch["target"]["kind"]]
    assert deployment["metadata"]["name"] == patch["target"]["name"]
    return patched(deployment)


def claims(manifest, container):
    """Returns the claims of a container's volumes by their path."""
    volumes = {volume["name"]: volume for volume in pod(manifest)["volumes"]}
    return {
        mount["mountPath"]: volumes[mount["name"]]["persistentVolumeClaim"]["claimName"]
        for mount in container["volumeMounts"]
        if "persistentVolumeClaim" in volumes[mount["name"]]
    }


def test_server_with_the_patch_is_valid_and_keeps_a_sample(server):
    check(server)
    container = containers(server)["server"]
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == "samples"]
    assert "readOnly" not in mount
    assert parse(container)["sample_dir"] == Path(mount["mountPath"])


def test_job_reads_the_model_and_the_samples_of_the_server(server):
    container = containers(server)["server"]
    options, served = parse(MONITOR), parse(container)
    assert options["model"] == served["model"]
    assert options["samples"] == str(served["sample_dir"])
    assert claims(JOB, MONITOR) == claims(server, container)
    claim = MONITORING["PersistentVolumeClaim"]
    assert claim["metadata"]["name"] in claims(JOB, MONITOR).values()
    # Only the user of the server can read the samples.
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        assert pod(JOB)["securityContext"][key] == pod(server)["securityContext"][key]


def test_job_runs_the_installed_command_and_reaches_prometheus(server):
    assert MONITOR["command"] == containers(server)["server"]["command"]
    assert MONITOR["args"][0] in main.commands
    assert parse(MONITOR)["pushgateway"]
    assert Path(parse(MONITOR)["reference"]).parents[1] == Path("/models")


def test_job_runs_every_day_once_and_repeats_no_alarm():
    minute, hour, *days = JOB["spec"]["schedule"].split()
    assert minute.isdigit()
    assert hour.isdigit()
    assert days == ["*"] * 3
    assert parse(MONITOR)["hours"] == 24
    assert JOB["spec"]["concurrencyPolicy"] == "Forbid"
    job = JOB["spec"]["jobTemplate"]["spec"]
    assert job["backoffLimit"] == 2
    alarm, disruption = job["podFailurePolicy"]["rules"]
    assert alarm["action"] == "FailJob"
    assert alarm["onExitCodes"] == {
        "containerName": MONITOR["name"],
        "operator": "In",
        "values": [exit_status.ALARM],
    }
    assert disruption["action"] == "Ignore"
    assert disruption["onPodConditions"][0]["type"] == "DisruptionTarget"
    assert job["template"]["spec"]["restartPolicy"] == "Never"
