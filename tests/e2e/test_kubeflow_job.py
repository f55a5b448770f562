"""The compiled job on Kubeflow Pipelines, from pairs to served models.

`JobRunner` runs it on this machine as the recorded backend did, with its pods'
restrictions and an object store. Nightly tests run it again, with a champion.
"""

import copy
import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from components.model_checks import registry
from contracts.records.checks import ChecksReport
from contracts.storage import files
from ingest import examples as examples_lib
from pipeline import entrypoint
from pipeline.beam import beam_arguments, worker_pool
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY
from pipeline.config.recipe import load_task
from pipeline.orchestrators.run_files import find_missing_results
from tests import tiny
from tests.compiled import argo_status
from tests.compiled.backends import LOGS_KEY, LOGS_TYPE
from tests.compiled.runner import JobRun
from tests.compiled.spec import check_spec, container_of
from tests.e2e import jobs
from tests.e2e.check_results import find, read_table
from tests.e2e.failing_checks import OWN, TEXTS
from tests.e2e.finished_run.components import RELEASE
from tests.nightly import nightly
from tools.local_cluster import free_ports

pytestmark = pytest.mark.e2e

SECOND = {"learning_rate": 0.002}
_SHARD = re.compile(r"-\d{5}-of-\d{5}")


@dataclasses.dataclass
class Story:
    """A run of a job with the defaults.

    Attributes:
      first: The run.
      served: The version that it pushed. Nightly tests push more.
    """

    job: jobs.Job
    first: JobRun
    served: list[str]


@pytest.fixture(scope="module")
def story(tmp_path_factory, object_store, pods):
    directory = tmp_path_factory.mktemp("kubeflow")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in object_store.environment.items():
            patch.setenv(name, value)
        checks = {
            "checks.required_rows.file": str(directory / "job" / "must_pass.csv"),
            f"checks.{OWN}": {},
        }
        with jobs.compiled(
            directory / "job", "kubeflow", object_store, changes=checks
        ) as job:
            yield Story(job, job.runner.run(job.spec), job.served)


@pytest.fixture(scope="module")
def second(story):
    """A run with another learning rate, up to the Evaluator."""
    spec = jobs.up_to(story.job.spec, "Evaluator")
    return story.job.runner.run(spec, parameters=SECOND)


RUNS = pytest.mark.parametrize("run", ["first", nightly("second")])


def find_executed(story, request, run):
    """Returns the tasks of a run that were not cached, by name."""
    tasks = (story.first if run == "first" else request.getfixturevalue("second")).tasks
    return {name: task for name, task in tasks.items() if task.state == "run"}


def test_package_is_valid_for_the_clusters_protos_and_loader(story):
    check_spec(*story.job.documents)


def test_first_run_goes_from_pairs_to_a_model_that_is_served(story):
    assert set(story.first.states.values()) == {"run"}
    (first,) = story.served
    jobs.check_serving(story.first, first)
    assert story.first.custom_jobs == []


def test_first_run_starts_from_the_encoder_and_has_no_champion(story):
    assert jobs.started_from(story.first) == "the pre-trained encoder"
    verdict = jobs.verdict(story.first)
    assert verdict.blessed
    assert verdict.champion is None
    assert "only absolute thresholds apply" in verdict.summary


def check_report(run, learning_rate):
    page = jobs.output(run, "Report", "report")
    with tf.io.gfile.GFile(page) as file:
        assert file.read().startswith("<!doctype html>")
    numbers = jobs.read_json(page.removesuffix(".html") + ".json")
    assert numbers["outcome"] == "pushed"
    assert numbers["settings"]["trainer"]["learning_rate"] == learning_rate
    assert numbers["verdict"]["slices"]
    results = {result["name"]: result for result in numbers["checks"]}
    assert set(results) == set(registry.find_checks())
    assert results["linear_model"]["table"]["rows"]
    assert results["swapped_words"]["status"] in ("passed", "warning")


def test_report_of_a_run_is_a_page_that_the_interface_shows(story):
    component = story.job.spec["components"]["Report"]
    (output,) = component["outputDefinitions"]["artifacts"].values()
    assert output["artifactType"]["schemaTitle"] == "system.HTML"
    check_report(story.first, 0.001)


def test_parameter_of_the_run_replaces_a_setting_of_the_training(story):
    assert jobs.learning_rate(story.first) == 0.001
    spec = jobs.up_to(story.job.spec, "Hyperparameters")
    run = story.job.runner.run(spec, parameters=SECOND)
    assert jobs.learning_rate(run) == 0.002


@pytest.mark.nightly
def test_parameter_of_the_run_trains_again_from_the_same_start(second):
    assert jobs.executed(second) == {
        *("Hyperparameters", "Trainer", "Champion", "Evaluator"),
    }
    assert jobs.started_from(second) == "the pre-trained encoder"


@pytest.mark.nightly
def test_second_run_is_compared_with_what_the_first_one_pushed(story, second):
    verdict = jobs.verdict(second)
    assert verdict.champion == story.served[0]
    before = {m.metric: m.value for m in jobs.verdict(story.first).metrics}
    for metric in verdict.metrics:
        assert metric.champion == pytest.approx(before[metric.metric], nan_ok=True)


@pytest.mark.nightly
@pytest.mark.usefixtures("second")
def test_second_model_is_pushed_next_to_the_first_one(story):
    run = story.job.runner.run(story.job.spec, parameters=SECOND)
    assert jobs.executed(run) == set(RELEASE)
    ages = find(jobs.checks(run), "older_versions")
    _, older = read_table(ages)
    first = story.served[0].rpartition("/")[2]
    assert (older["version"], older["problem"]) == (first, "")
    assert ages.figures["rows"] == 48
    jobs.check_serving(run, story.job.served[1])
    check_report(run, 0.002)


@pytest.mark.nightly
def test_training_on_new_data_starts_from_the_newest_champion(story, tmp_path):
    task = load_task(tiny.write_config(tmp_path / "recipe.yaml"), {})
    tables = tiny.write_tables(tmp_path / "new", rows=40)
    examples_lib.prepare(str(tables), str(tmp_path / "prepared"), task)
    data = f"{story.job.root}/new"
    files.copy_directory(str(tmp_path / "prepared"), data)
    up_to_start = jobs.up_to(story.job.spec, "WarmStart")
    third = story.job.runner.run(up_to_start, parameters={"data": data})
    newest = story.job.served[-1]
    assert {"ImportExampleGen", "WarmStart"} <= jobs.executed(third)
    base_model = jobs.output(third, "WarmStart", "base_model")
    assert jobs.read_json(base_model, "champion.json")["directory"] == newest


def test_no_key_of_the_bucket_has_an_empty_part_or_a_dot(story, object_store):
    keys = object_store.keys(story.job.root)
    assert len(keys) > 100
    for key in keys:
        assert not {"", ".", ".."} & set(key.split("/")), key


@RUNS
def test_every_output_of_the_job_is_without_markers_of_directories(
    story, object_store, request, run
):
    """The launcher of the component that reads one would fail on it."""
    components = story.job.spec["components"]
    empty, executed = set(), find_executed(story, request, run)
    for name, task in executed.items():
        outputs = components[name].get("outputDefinitions", {}).get("artifacts", {})
        for output in outputs:
            channel = task.executor_input["outputs"]["artifacts"][output]
            keys = object_store.keys(channel["artifacts"][0]["uri"])
            assert [key for key in keys if key.endswith("/")] == []
            if not keys:
                empty.add((name, output))
    expected = {
        ("AtomicPusher", "pushed_model"),  # names the version, which is elsewhere
        ("Transform", "updated_analyzer_cache"),
        ("WarmStart", "base_model"),
    }
    if run == "first":
        expected.add(("Champion", "model"))  # nothing was pushed before
    assert empty == {(name, output) for name, output in expected if name in executed}


def test_model_that_fails_required_rows_or_an_own_check_is_not_pushed(story):
    """The model of the first run, which passed the other checks."""
    spec = story.job.changed
    run = dataclasses.replace(story.first, tasks=dict(story.first.tasks))
    served = story.job.served
    for name in ("ModelChecks", "AtomicPusher"):
        run.tasks[name] = story.job.runner.rerun_task(spec, name, run)
        assert run.tasks[name].state == "run"
    blessing = run.tasks["ModelChecks"].outputs["blessing"]
    assert blessing["metadata"]["blessed"] == 0
    pushed = run.tasks["AtomicPusher"].outputs["pushed_model"]["metadata"]
    assert pushed["pushed"] == 0
    assert story.job.served == served
    results = ChecksReport.read(blessing["uri"]).results
    refused = {result.name for result in results if result.status == "refused"}
    assert refused == {"required_rows", OWN}
    (row,) = find(results, "required_rows").rows
    assert list(row.texts.values()) == TEXTS
    assert row.facts["prediction"] != row.facts["label"]


def test_report_that_fails_leaves_a_page_and_the_run_succeeds(story):
    spec = copy.deepcopy(story.job.spec)
    component = spec["components"]["Report"]
    arguments = container_of(spec, component)["args"]
    option, path = arguments[0].split("=")
    content = files.read_json(path)
    content["parameters"]["settings"] = '{"task": 1}'
    failing = path.replace(".json", "_failing.json")
    arguments[0] = f"{option}={failing}"
    files.write_json(failing, content)
    task = story.job.runner.rerun_task(spec, "Report", story.first)
    assert task.state == "run"
    missing = task.outputs["report"]["metadata"]["missing"]
    assert missing.startswith("the report and the model card (ValidationError: ")
    page = task.outputs["report"]["uri"]
    with tf.io.gfile.GFile(page) as file:
        assert "The report failed" in file.read()
    run = f"{story.job.root}/tiny/{story.first.id}"
    assert find_missing_results(run).startswith(missing)


@RUNS
def test_logs_that_the_backend_publishes_break_no_component(
    story, object_store, request, run
):
    for task in find_executed(story, request, run).values():
        assert object_store.read(task.outputs["executor-logs"]["uri"])


@pytest.fixture(scope="module")
def elsewhere(story):
    """Beam's arguments of a job service whose workers are outside of the pods."""
    jobs_port, pool_port = free_ports("localhost", 2)
    service = "apache_beam.runners.portability.local_job_service_main"
    pool = f"localhost:{pool_port}"
    commands = [
        ("-m", service, "--port", str(jobs_port)),
        ("-m", worker_pool.__name__, pool),
    ]
    processes = [
        subprocess.Popen(
            [sys.executable, *command], cwd=REPOSITORY, stderr=subprocess.DEVNULL
        )
        for command in commands
    ]
    yield beam_arguments(
        BeamConfig(
            runner="portable",
            job_endpoint=f"localhost:{jobs_port}",
            environment="external",
            environment_config=pool,
        ),
        is_here=False,
    )
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["ImportExampleGen", "StatisticsGen", "DataGate", "Transform", "Evaluator"]
)
def test_workers_of_beam_share_only_the_object_store_with_a_pod(story, elsewhere, name):
    """TFX's temporary directory is in the pod; no component gives it to Beam."""
    assert not Path("/gcs").exists()
    spec = copy.deepcopy(story.job.spec)
    del spec["root"]["dag"]["tasks"][name]["cachingOptions"]
    arguments = container_of(spec, spec["components"][name])["args"]
    (option,) = (a for a in arguments if a.startswith(entrypoint.BEAM_FILE))
    other = option.replace(".json", "_elsewhere.json")
    arguments[arguments.index(option)] = other
    content = {"arguments": list(elsewhere)}
    files.write_record(other.removeprefix(entrypoint.BEAM_FILE), content)
    task = story.job.runner.rerun_task(spec, name, story.first)
    assert task.state == "run"
    assert "Job state changed to DONE" in task.log.read_text()
    for key, first in story.first.tasks[name].outputs.items():
        names = [
            {_SHARD.sub("", file) for file in files.list_files(output["uri"])}
            for output in (first, task.outputs[key])
        ]
        assert names[0] == names[1], key


def test_model_is_copied_only_to_the_components_that_load_it(story):
    model = jobs.output(story.first, "Trainer", "model")
    readers = {
        name
        for name, task in story.first.tasks.items()
        for channel in task.executor_input["inputs"].get("artifacts", {}).values()
        for artifact in channel["artifacts"]
        if artifact["uri"] == model
    }
    assert readers == {"Evaluator", "ServingCheck", "ModelChecks", "AtomicPusher"}


def test_state_of_a_run_is_small_enough_for_argo(story):
    """Argo compresses a larger one, and then the API names no task that failed."""
    spec = story.job.spec
    tasks = spec["root"]["dag"]["tasks"]
    nodes = argo_status.run_size(tasks)
    for name, task in story.first.tasks.items():
        component = copy.deepcopy(spec["components"][name])
        outputs = component.setdefault("outputDefinitions", {})
        outputs.setdefault("artifacts", {})[LOGS_KEY] = {"artifactType": LOGS_TYPE}
        container = container_of(spec, component)
        nodes += argo_status.task_size(
            component,
            tasks[name],
            [*container["command"], *container["args"]],
            task.executor_input,
        )
    # WarmStart and ModelChecks were not in the recorded run.
    assert len(tasks) == 16
    recorded = argo_status.RECORDED_BYTES / argo_status.RECORDED_TASKS
    assert nodes / len(tasks) < 0.56 * recorded
    size = nodes + argo_status.spec_size(spec) + argo_status.WORKFLOW_BYTES
    assert size < 0.65 * argo_status.LIMIT_BYTES
    # As many components as there can be.
    assert size + argo_status.MEASURED_TUNER_BYTES < 0.71 * argo_status.LIMIT_BYTES


def test_spec_of_a_workflow_has_the_size_that_was_measured(story):
    """The measured run had no WarmStart, and OlderVersions instead of ModelChecks."""
    spec = copy.deepcopy(story.job.spec)
    del spec["root"]["dag"]["tasks"]["WarmStart"]
    measured = argo_status.MEASURED_SPEC_BYTES
    assert argo_status.spec_size(spec) == pytest.approx(measured, rel=0.02)
