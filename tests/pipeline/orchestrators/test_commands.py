"""`compile` and `submit`, from the command line to what a cluster is sent."""

import json

import pytest
import yaml
from click.testing import CliRunner
from google.protobuf import json_format

from pipeline.cli.main import main
from pipeline.orchestrators import staging
from tests import tiny
from tests.pipeline.orchestrators import credentials


@pytest.fixture
def root(tmp_path):
    return tmp_path / "cluster"


@pytest.fixture
def recipe(tmp_path, root):
    cluster = {"image": "registry/bert:1", "pipeline_root": str(root)}
    google = {"project": "project", "region": "us-central1"}
    return tiny.write_config(
        tmp_path / "recipe.yaml", kubeflow=cluster, vertex=cluster | google
    )


@pytest.fixture
def invoke(recipe, monkeypatch):
    """Runs a command on the recipe."""
    # `silence_start_up` sets it for a process that ends with the command.
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")

    def invoke(*arguments):
        given = [*map(str, arguments), "--config", str(recipe)]
        return CliRunner().invoke(main, given)

    return invoke


def staged(root):
    return sorted(path.name for path in (root / "inputs").iterdir())


def test_compile_writes_the_package_and_brings_nothing_anywhere(invoke, root, tmp_path):
    package = tmp_path / "pipeline.yaml"
    result = invoke("compile", "--target", "kubeflow", "-o", package)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1] == f"written to {package}"
    assert yaml.safe_load(package.read_text())["schemaVersion"] == "2.1.0"
    assert not root.exists()


def test_compile_with_stage_brings_the_inputs_to_the_cluster(invoke, root, tmp_path):
    package = tmp_path / "job.json"
    result = invoke("compile", "--target", "vertex", "-o", package, "--stage")
    assert result.exit_code == 0, result.output
    assert staged(root) == ["encoder", "examples", "schema"]
    job = json.loads(package.read_text())
    assert job["runtimeConfig"]["gcsOutputDirectory"] == str(root)


def test_submit_brings_the_inputs_and_starts_the_run_on_kubeflow(
    invoke, kubeflow, root
):
    result = invoke(
        *("submit", "--target", "kubeflow", "--host", kubeflow.host),
        *("--experiment", "spring", "--run-name", "first"),
        *("--parameter", "epochs=2", "--parameter", "learning_rate=3e-5"),
        *("--parameter", "thresholds={accuracy: 0.9}", "--wait"),
    )
    assert result.exit_code == 0, result.output
    assert staged(root) == ["encoder", "examples", "schema"]
    (run,) = kubeflow.runs
    assert run["display_name"] == "first"
    assert run["runtime_config"]["pipeline_root"] == str(root)
    sent = run["runtime_config"]["parameters"]
    assert sent["epochs"] == 2
    assert sent["learning_rate"] == 3e-5
    assert sent["thresholds"] == '{"accuracy": 0.9}'
    assert f"{kubeflow.host}/#/runs/details/" in result.output


def test_second_submission_copies_nothing_again(invoke, kubeflow, root):
    for name in ("first", "second"):
        result = invoke(
            *("submit", "--target", "kubeflow", "--host", kubeflow.host),
            *("--run-name", name),
        )
        assert result.exit_code == 0, result.output
        assert ("copying" in result.output) == (name == "first")
    assert [run["display_name"] for run in kubeflow.runs] == ["first", "second"]


def test_run_that_fails_exits_1_with_where_to_look(invoke, kubeflow):
    kubeflow.states = ["RUNNING", "FAILED"]
    result = invoke("submit", "--target", "kubeflow", "--host", kubeflow.host, "--wait")
    assert result.exit_code == 1
    assert "ended FAILED" in result.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parameter", "learning_rate=5"], "trainer.learning_rate"),
        (["--parameter", "epochs=0"], "trainer.epochs"),
        (["--parameter", "thresholds={pearson: 0.5}"], "names 'pearson'"),
        (["--parameter", "batch_size=8"], "--parameter batch_size: allowed are"),
        (["--set", "kubeflow.retries=-1"], "kubeflow.retries"),
    ],
)
def test_what_a_run_would_refuse_is_refused_before_anything_is_sent(
    invoke, kubeflow, root, arguments, message
):
    result = invoke(
        "submit", "--target", "kubeflow", "--host", kubeflow.host, *arguments
    )
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert kubeflow.requests == []
    assert not root.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "kubeflow"], "wants --host URL"),
        (["--target", "vertex", "--host", "http://x"], "--host: for --target kubeflow"),
        (["--target", "slurm"], "'slurm' is not one of"),
    ],
)
def test_options_of_another_target_are_refused(invoke, arguments, message):
    result = invoke("submit", *arguments)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_submit_starts_the_job_in_the_project_and_region_that_are_given(
    invoke, vertex, serve, monkeypatch, tmp_path
):
    endpoint = f"http://localhost:{serve(credentials.TokenEndpoint).server_port}"
    key = credentials.write_service_account(tmp_path / "key.json", endpoint)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    copied = []  # there is no Cloud Storage here
    monkeypatch.setattr(staging, "copy", lambda staged, _: copied.extend(staged.copies))
    result = invoke(
        *("submit", "--target", "vertex", "--project", "p2", "--region", "asia-east1"),
        *("--set", "vertex.pipeline_root=gs://bucket/bert/", "--run-name", "first"),
        *("--parameter", "epochs=2"),
    )
    assert result.exit_code == 0, result.output
    assert all(place.startswith("gs://bucket/bert/inputs/") for _, place in copied)
    (request,) = vertex.created
    assert request.parent == "projects/p2/locations/asia-east1"
    sent = json_format.MessageToDict(request.pipeline_job._pb.runtime_config)
    assert sent["gcsOutputDirectory"] == "gs://bucket/bert"
    assert sent["parameterValues"]["epochs"] == 2
    trainer = request.pipeline_job.pipeline_spec["root"]["dag"]["tasks"]["Trainer"]
    settings = trainer["inputs"]["parameters"]["custom_config"]
    assert "asia-east1" in settings["runtimeValue"]["constant"]
