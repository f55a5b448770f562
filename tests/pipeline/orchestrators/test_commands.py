"""`compile` and `submit`, from the command line to the orchestrator's requests."""

import itertools
import json
import re

import pytest
import yaml
from click.testing import CliRunner
from google.protobuf import json_format

from contracts.storage import files
from pipeline import exit_status
from pipeline.cli.main import main
from tests import tiny
from tests.refusals import check_command

pytestmark = pytest.mark.slow

RETRIES = "docs/orchestrators.md#retries"


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def recipe(tmp_path, root):
    settings = {"image": "registry/bert:1", "pipeline_root": str(root)}
    google = {"project": "project", "region": "us-central1"}
    return tiny.write_config(
        tmp_path / "recipe.yaml", kubeflow=settings, vertex=settings | google
    )


@pytest.fixture
def invoke(recipe, monkeypatch):
    """Runs a command on the recipe."""
    # `silence_start_up` sets it for a process that ends with the command.
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")

    def invoke(*arguments):
        arguments = [*map(str, arguments), "--config", str(recipe)]
        return CliRunner().invoke(main, arguments)

    return invoke


def staged(root):
    return sorted(path.name for path in (root / "inputs").iterdir())


def test_compile_writes_the_package_and_stage_copies_the_inputs(invoke, root, tmp_path):
    package = tmp_path / "pipeline.yaml"
    result = invoke("compile", "--orchestrator", "kubeflow", "-o", package)
    assert result.exit_code == 0, result.output
    written, hint = result.output.splitlines()[-2:]
    assert written == f"written to {package}"
    assert "--stage" in hint
    assert yaml.safe_load(package.read_text())["schemaVersion"] == "2.1.0"
    assert not root.exists()
    package = tmp_path / "job.json"
    result = invoke("compile", "--orchestrator", "vertex", "-o", package, "--stage")
    assert result.exit_code == 0, result.output
    assert "--stage" not in result.output
    assert staged(root) == [
        *("beam", "commits", "components", "encoder", "examples", "schema")
    ]
    job = json.loads(package.read_text())
    assert job["runtimeConfig"]["gcsOutputDirectory"] == str(root)


def test_file_that_compile_cannot_write_is_refused_before_it_compiles(invoke, tmp_path):
    package = tmp_path / "job.txt"
    result = invoke("compile", "--orchestrator", "vertex", "-o", package)
    check_command(result, "E-format-unknown", f"--output: {package}", ".yml or, for")
    assert not (tmp_path / "output").exists()  # no input was resolved


@pytest.mark.parametrize(
    ("orchestrator", "option"),
    [("kubeflow", ["--no-cache"]), ("vertex", ["--project", "p", "--region", "r"])],
)
def test_options_without_a_section_name_the_settings_it_needs(
    tmp_path, orchestrator, option
):
    recipe = tiny.write_config(tmp_path / "bare.yaml")
    submit = ["submit", "--orchestrator", orchestrator, *option]
    result = CliRunner().invoke(main, [*submit, "--config", str(recipe)])
    keys = [f"{orchestrator}.{name}" for name in ("image", "pipeline_root")]
    parts = [(f"{key}: missing", f"--set {key}=VALUE") for key in keys]
    check_command(result, "E-settings-refused", *itertools.chain(*parts))


def test_submit_copies_the_inputs_once_and_starts_runs_on_kubeflow(
    invoke, kubeflow, root
):
    submit = ("submit", "--orchestrator", "kubeflow", "--host", kubeflow.host)
    result = invoke(
        *submit,
        *("--experiment", "spring", "--run-name", "first"),
        *("--parameter", "epochs=2", "--parameter", "learning_rate=3e-5"),
        *("--parameter", "thresholds={accuracy: 0.9}", "--wait"),
    )
    assert result.exit_code == 0, result.output
    assert staged(root) == [
        *("beam", "commits", "components", "encoder", "examples", "schema")
    ]
    assert "copying" in result.output
    assert RETRIES in result.output
    assert f"{kubeflow.host}/#/runs/details/" in result.output
    (run,) = kubeflow.runs
    assert run["display_name"] == "first"
    assert run["runtime_config"]["pipeline_root"] == str(root)
    sent = run["runtime_config"]["parameters"]
    assert sent["epochs"] == 2
    assert sent["learning_rate"] == 3e-5
    assert sent["thresholds"] == '{"accuracy": 0.9}'
    kubeflow.states = ["RUNNING", "FAILED"]
    refused = {"exit_status": exit_status.USAGE, "error": "the data are refused"}
    record = f"{root}/tiny/run-1/DataGate/a-uuid/failure-0.json"
    files.write_json(record, refused)
    submit = ("submit", "--orchestrator", "kubeflow", "--host", kubeflow.host)
    no_retries = ("--set", "kubeflow.retries=0")
    result = invoke(*submit, "--no-cache", "--wait", *no_retries)
    assert result.exit_code == exit_status.USAGE
    name = kubeflow.runs[-1]["display_name"]
    assert re.fullmatch(r"tiny-\d{8}-\d{6}z", name)  # in UTC
    assert "ended FAILED" in result.output.replace("\n", " ")
    assert RETRIES not in result.output
    assert "copying" not in result.output
    cached = [
        [
            name
            for name, task in version["pipeline_spec"]["root"]["dag"]["tasks"].items()
            if task.get("cachingOptions", {}).get("enableCache")
        ]
        for version in kubeflow.versions
    ]
    assert "Trainer" in cached[0]
    assert cached[1] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parameter", "learning_rate=5"], "trainer.learning_rate"),
        (["--parameter", "epochs=0"], "trainer.epochs"),
        (["--parameter", "thresholds=0.9"], "evaluator.thresholds"),
        (["--parameter", "thresholds={pearson: 0.5}"], "names 'pearson'"),
        (["--parameter", "batch_size=8"], "--parameter: 'batch_size=8'; allowed: "),
        (["--set", "kubeflow.retries=-1"], "kubeflow.retries"),
    ],
)
def test_what_a_run_would_refuse_is_refused_before_anything_is_sent(
    invoke, kubeflow, root, arguments, message
):
    result = invoke(
        "submit", "--orchestrator", "kubeflow", "--host", kubeflow.host, *arguments
    )
    check_command(result, "E-settings-refused", message)
    assert kubeflow.requests == []
    assert not root.exists()


@pytest.mark.parametrize(
    ("arguments", "name", "message"),
    [
        ("kubeflow", "E-option-missing", "give --host URL"),
        (
            "vertex --host http://x --pod-token",
            "E-options-conflict",
            "--host, --pod-token; allowed: only with --orchestrator kubeflow",
        ),
        (
            "vertex",
            "E-settings-refused",
            "use --set vertex.pipeline_root=gs://BUCKET/FOLDER",
        ),
        ("slurm", "E-settings-refused", "'slurm' is not one of"),
    ],
)
def test_options_of_another_orchestrator_are_refused(invoke, arguments, name, message):
    result = invoke("submit", "--orchestrator", *arguments.split())
    check_command(result, name, message)


def test_submit_starts_the_job_in_the_given_project_and_region(
    invoke, bucket, object_store, vertex, log_in
):
    log_in()
    result = invoke(
        *("submit", "--orchestrator", "vertex", "--run-name", "first"),
        *("--project", "p2", "--region", "asia-east1"),
        *("--set", f"vertex.pipeline_root={bucket}/bert/"),
        *("--parameter", "epochs=2"),
    )
    assert result.exit_code == 0, result.output
    assert object_store.keys(f"{bucket}/bert/inputs/")
    assert RETRIES not in result.output
    (request,) = vertex.created
    assert request.parent == "projects/p2/locations/asia-east1"
    sent = json_format.MessageToDict(request.pipeline_job._pb.runtime_config)
    assert sent["gcsOutputDirectory"] == f"{bucket}/bert"
    assert sent["parameterValues"]["epochs"] == 2
    trainer = request.pipeline_job.pipeline_spec["root"]["dag"]["tasks"]["Trainer"]
    settings = trainer["inputs"]["parameters"]["custom_config"]
    assert "asia-east1" in settings["runtimeValue"]["constant"]
