"""The jobs that are compiled for Kubeflow and for Vertex AI."""

import json
import re

import pytest
import yaml

from pipeline.config import tfx_names
from pipeline.config.orchestrators import ORCHESTRATORS
from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation
from tests import tiny
from tests.refusals import refused

pytestmark = pytest.mark.slow

KUBEFLOW = {
    "image": "registry/bert:1",
    "pipeline_root": "gs://bucket/bert/",
    "retries": 3,
    "cpu": 4.0,
    "memory_gb": 16.0,
    "accelerator": "nvidia.com/gpu",
    "accelerator_count": 2,
    "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-l4"},
}
VERTEX = {
    "image": "registry/bert:1",
    "pipeline_root": "gs://bucket/bert",
    "project": "project",
    "region": "europe-west4",
    "machine_type": "g2-standard-12",
    "accelerator": "NVIDIA_L4",
    "service_account": "bert@project.iam.gserviceaccount.com",
    "beam": {
        "runner": "dataflow",
        "dataflow": {"max_workers": 5, "machine_type": "n1-standard-4"},
    },
}
ROOT_KEY, ROOT = "kubeflow.pipeline_root", "gs://bucket/bert"
VARIANT = {
    "evaluator.incompatible_champion": "refuse",
    "trainer.warm_start": "champion",
    "checks.latency.max_ratio": 1.5,
    "evaluator.split": "test",
    "tuner": {"trials": 3, "space": {"learning_rate": [1e-4, 1e-3, "log"]}},
}
GATE = {"thresholds": {"accuracy": 0.5}, "max_regression": {"accuracy": 0.1}}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return tiny.write_config(
        tmp_path_factory.mktemp("compiled") / "recipe.yaml",
        kubeflow=KUBEFLOW,
        vertex=VERTEX,
        evaluator=GATE,
    )


@pytest.fixture(scope="module")
def kubeflow(recipe):
    return compilation.compile_job(load_config(recipe), "kubeflow")


@pytest.fixture(scope="module")
def vertex(recipe):
    return compilation.compile_job(load_config(recipe), "vertex")


@pytest.fixture(scope="module")
def kubeflow_variant(recipe):
    return compilation.compile_job(load_config(recipe, VARIANT), "kubeflow")


@pytest.fixture(scope="module")
def vertex_variant(recipe):
    settings = VARIANT | {
        "vertex.machine_type": "ct5lp-hightpu-4t",
        "vertex.tpu_topology": "2x2",
        "vertex.accelerator": None,
        "vertex.endpoint": {"name": "paraphrases", "image": "registry/serving:1"},
        "trainer.strategy": "tpu",
    }
    return compilation.compile_job(load_config(recipe, settings), "vertex")


@pytest.fixture(scope="module")
def span_job(tmp_path_factory):
    """A job without cache and retries on spans: their source, messages, the job."""
    directory = tmp_path_factory.mktemp("spans")
    source = f"{directory}/spans/{{SPAN}}"
    tiny.write_tables(directory / "spans" / "03")
    recipe = tiny.write_config(
        directory / "recipe.yaml",
        data={"source": source},
        kubeflow=KUBEFLOW | {"cache": False, "retries": 0},
    )
    messages = []
    job = compilation.compile_job(load_config(recipe), "kubeflow", messages.append)
    return source, messages, job


def tasks(job):
    return job.spec["root"]["dag"]["tasks"]


def containers(job):
    executors = job.spec["deploymentSpec"]["executors"]
    return {
        name.removesuffix("_executor"): executor["container"]
        for name, executor in executors.items()
    }


def component_file(job, task):
    (path,) = (
        argument.removeprefix("--component_file=")
        for argument in containers(job)[task]["args"]
        if argument.startswith("--component_file=")
    )
    return path


def constants(job, task):
    return job.staged.records[component_file(job, task)]["parameters"] | {
        name: value["runtimeValue"]["constant"]
        for name, value in tasks(job)[task]["inputs"].get("parameters", {}).items()
        if "runtimeValue" in value
    }


def test_both_orchestrators_run_the_same_components(kubeflow, vertex):
    assert set(tasks(kubeflow)) == set(tasks(vertex))
    for name, task in tasks(kubeflow).items():
        other = tasks(vertex)[name]
        assert (
            task["dependentTasks" if "dependentTasks" in task else "taskInfo"]
            == (other["dependentTasks" if "dependentTasks" in other else "taskInfo"])
        )
    commands = {
        tuple(container["command"]) for container in containers(vertex).values()
    }
    assert len(commands) == 1


def test_job_has_the_names_that_are_read_without_tfx(kubeflow):
    names = vars(tfx_names).values()
    outputs = [output for output in names if isinstance(output, tuple)]
    assert outputs
    for component, key in outputs:
        reference = tasks(kubeflow)[component]["componentRef"]["name"]
        definitions = kubeflow.spec["components"][reference]["outputDefinitions"]
        assert key in definitions["artifacts"]
    assert {tfx_names.TRANSFORM, tfx_names.HYPERPARAMETERS} <= set(tasks(kubeflow))


def test_schema_version_image_and_pipeline_root(kubeflow, vertex):
    for job in (kubeflow, vertex):
        assert job.spec["schemaVersion"] == "2.1.0"
        assert job.spec["defaultPipelineRoot"] == ROOT
        images = {container["image"] for container in containers(job).values()}
        assert images == {"registry/bert:1"}


def test_kubeflow_has_nothing_that_only_vertex_runs(kubeflow, vertex):
    for executor in kubeflow.spec["deploymentSpec"]["executors"].values():
        assert set(executor) == {"container"}  # neither resolver nor importer
    assert not any("lifecycle" in c for c in containers(kubeflow).values())
    assert "lifecycle" in containers(vertex)["ImportExampleGen"]


def test_only_the_trainer_gets_the_resources(kubeflow, vertex):
    with_resources = {
        name: container["resources"]
        for name, container in containers(kubeflow).items()
        if "resources" in container
    }
    assert with_resources == {
        "Trainer": {
            "cpuLimit": 4.0,
            "memoryLimit": 16.0,
            "accelerator": {"type": "nvidia.com/gpu", "count": "2"},
        }
    }
    assert not any("resources" in c for c in containers(vertex).values())


def test_only_the_trainer_is_bound_to_nodes(kubeflow):
    executors = kubeflow.platform_spec["platforms"]["kubernetes"]["deploymentSpec"]
    assert executors == {
        "executors": {
            "Trainer_executor": {"nodeSelector": {"labels": KUBEFLOW["node_selector"]}}
        }
    }


def test_every_task_is_retried(kubeflow):
    for task in tasks(kubeflow).values():
        assert task["retryPolicy"]["maxRetryCount"] == 3


def test_all_but_what_reads_versions_and_the_report_are_cached(kubeflow, vertex):
    for job in (kubeflow, vertex):
        cached = {
            name
            for name, task in tasks(job).items()
            if task.get("cachingOptions", {}).get("enableCache")
        }
        assert set(tasks(job)) - cached == {"Champion", "Report"}
        assert constants(job, "ModelChecks")["cache"] == f"{ROOT}/check_results"
        assert "cache" not in constants(job, "Report")


@pytest.mark.parametrize("orchestrator", ORCHESTRATORS)
def test_dag_has_more_components_if_settings_ask_for_them(
    orchestrator, kubeflow, kubeflow_variant, vertex, vertex_variant
):
    jobs = {
        "kubeflow": (kubeflow, kubeflow_variant),
        "vertex": (vertex, vertex_variant),
    }
    job, variant = jobs[orchestrator]
    added = set(tasks(variant)) - set(tasks(job)) - {"EndpointPusher"}
    assert added == {"ChampionCheck", "WarmStart", "Tuner"}
    # The champion is checked before every training.
    assert "cachingOptions" not in tasks(variant)["ChampionCheck"]
    assert "ChampionCheck" in tasks(variant)["Transform"]["dependentTasks"]
    # The champion to start from is looked up once for the same data.
    warm_start = tasks(variant)["WarmStart"]
    assert warm_start["cachingOptions"] == {"enableCache": True}
    assert warm_start["dependentTasks"] == ["ImportExampleGen"]
    assert constants(variant, "WarmStart")["directory"] == f"{ROOT}/serving/tiny"
    for training in ("Tuner", "Trainer"):
        assert "WarmStart" in tasks(variant)[training]["dependentTasks"]


def test_search_is_before_the_trainer_and_a_parameter_of_the_run_wins(
    kubeflow_variant, vertex_variant
):
    for job in (kubeflow_variant, vertex_variant):
        found = tasks(job)["Hyperparameters"]["inputs"]["artifacts"]
        source = found["best_hyperparameters"]["taskOutputArtifact"]
        assert source["producerTask"] == "Tuner"
        searched, trained = (
            json.loads(constants(job, task)["custom_config"])
            for task in ("Tuner", "Trainer")
        )
        # The trials and the training have the same checkpoint keys.
        common = searched.keys() & trained.keys()
        assert {name: searched[name] for name in common} == {
            name: trained[name] for name in common
        }
        assert searched["checkpoints"] == f"{ROOT}/training"
        assert searched["tuner"] == VARIANT["tuner"]
        # 0 takes the value that the search finds.
        declared = job.spec["root"]["inputDefinitions"]["parameters"]
        assert declared["learning_rate"]["defaultValue"] == 0.0
        assert declared["learning_rate"]["parameterType"] == "NUMBER_DOUBLE"
        assert declared["epochs"]["defaultValue"] == 1


def test_trials_get_the_resources_and_nodes_of_the_trainer(kubeflow_variant):
    tuner, trainer = (
        containers(kubeflow_variant)[name]["resources"] for name in ("Tuner", "Trainer")
    )
    assert tuner == trainer
    executors = kubeflow_variant.platform_spec["platforms"]["kubernetes"]
    bound = executors["deploymentSpec"]["executors"]
    assert set(bound) == {"Tuner_executor", "Trainer_executor"}


def test_newest_span_is_resolved_when_the_job_is_compiled(span_job):
    source, messages, job = span_job
    assert f"span 3 of {source}: newest of 1" in messages
    data = job.spec["root"]["inputDefinitions"]["parameters"]["data"]
    assert data["defaultValue"].startswith(f"{ROOT}/inputs/examples/span-3/")
    assert "{SPAN" not in json.dumps(job.spec)


def test_data_gate_judges_a_run_by_its_own_parameters_and_spans(kubeflow, span_job):
    _, _, job = span_job
    data = job.spec["root"]["inputDefinitions"]["parameters"]["data"]["defaultValue"]
    gate = constants(job, "DataGate")
    assert json.loads(gate["spans"]) == {data: 3}
    assert gate["profiles"] == f"{ROOT}/profiles/tiny"
    assert json.loads(gate["patterns"])["train"] == "train/*.tf*record*"
    parameters = tasks(job)["DataGate"]["inputs"]["parameters"]
    assert parameters["source"] == {"componentInputParameter": "data"}
    assert parameters["thresholds"] == {"componentInputParameter": "thresholds"}
    assert json.loads(constants(kubeflow, "DataGate")["spans"]) == {}


def test_without_cache_and_retries_no_task_has_either(span_job):
    _, _, job = span_job
    for task in tasks(job).values():
        assert "cachingOptions" not in task
        assert "retryPolicy" not in task
    assert "cache" not in constants(job, "ModelChecks")


def test_trainers_parameters_are_validated_at_the_start_of_a_run(kubeflow):
    """The task that validates them waits for no other, and the Trainer for it."""
    validation, trainer = (tasks(kubeflow)[t] for t in ("Hyperparameters", "Trainer"))
    assert not validation.get("dependentTasks")
    assert "Hyperparameters" in trainer["dependentTasks"]


def test_parameters_of_the_run_have_types_and_defaults(kubeflow):
    declared = dict(kubeflow.spec["root"]["inputDefinitions"]["parameters"])
    data = declared.pop("data")
    assert data["parameterType"] == "STRING"
    assert data["defaultValue"].startswith(f"{ROOT}/inputs/examples/")
    assert declared == {
        "epochs": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1},
        "steps_per_epoch": {"parameterType": "NUMBER_INTEGER", "defaultValue": 0},
        "learning_rate": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.001},
        "thresholds": {
            "parameterType": "STRING",
            "defaultValue": json.dumps(GATE["thresholds"]),
        },
        "max_regression": {
            "parameterType": "STRING",
            "defaultValue": json.dumps(GATE["max_regression"]),
        },
        "significance": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 0.05},
    }


def test_no_task_reads_a_path_of_this_machine(
    kubeflow, vertex, kubeflow_variant, recipe
):
    for job in (kubeflow, vertex, kubeflow_variant):
        assert str(recipe.parent) not in json.dumps(job.spec)
        assert all(target.startswith(ROOT) for _, target in job.staged.copies)


def test_trainer_is_a_custom_job_of_vertex(vertex):
    settings = json.loads(constants(vertex, "Trainer")["custom_config"])
    assert settings["ai_platform_enable_vertex"] is True
    assert settings["ai_platform_vertex_region"] == "europe-west4"
    arguments = settings["ai_platform_training_args"]
    assert arguments["project"] == "project"
    (pool,) = arguments["job_spec"]["worker_pool_specs"]
    assert pool["machine_spec"] == {
        "machine_type": "g2-standard-12",
        "accelerator_type": "NVIDIA_L4",
        "accelerator_count": 1,
    }
    assert pool["replica_count"] == 1
    assert pool["container_spec"]["image_uri"] == "registry/bert:1"
    assert arguments["job_spec"]["service_account"] == VERTEX["service_account"]


def test_tpu_is_chosen_by_the_machine_type(vertex_variant):
    custom_config = json.loads(constants(vertex_variant, "Trainer")["custom_config"])
    arguments = custom_config["ai_platform_training_args"]
    (pool,) = arguments["job_spec"]["worker_pool_specs"]
    assert pool["machine_spec"] == {
        "machine_type": "ct5lp-hightpu-4t",
        "tpu_topology": "2x2",
    }


def test_beam_runs_on_dataflow_or_in_the_components_process(kubeflow, vertex):
    arguments = vertex.staged.beam_arguments
    for argument in (
        "--runner=DataflowRunner",
        "--project=project",
        "--region=europe-west4",
        f"--temp_location={ROOT}/temporary",
        "--sdk_container_image=registry/bert:1",
        "--max_num_workers=5",
        "--worker_machine_type=n1-standard-4",
        f"--service_account_email={VERTEX['service_account']}",
    ):
        assert argument in arguments
    (runner,) = (
        argument
        for argument in kubeflow.staged.beam_arguments
        if argument.startswith("--runner")
    )
    assert runner.endswith("FnApiRunner")


def test_workers_of_dataflow_share_the_pipeline_root_of_kubeflow(recipe):
    dataflow = {"project": "project", "region": "europe-west4"}
    beam = {"runner": "dataflow", "dataflow": dataflow}
    job = compilation.compile_job(
        load_config(recipe, {"kubeflow.beam": beam}), "kubeflow"
    )
    assert f"--temp_location={ROOT}/temporary" in job.staged.beam_arguments
    assert "--sdk_container_image=registry/bert:1" in job.staged.beam_arguments


def test_parameters_of_kubeflow_are_in_files_named_by_their_content(recipe, kubeflow):
    declared = kubeflow.spec["root"]["inputDefinitions"]["parameters"]
    for name, task in tasks(kubeflow).items():
        inline = task.get("inputs", {}).get("parameters", {})
        assert {source["componentInputParameter"] for source in inline.values()} <= set(
            declared
        )
        definitions = kubeflow.spec["components"][name].get("inputDefinitions", {})
        assert set(definitions.get("parameters", {})) == set(inline)
    settings = json.loads(constants(kubeflow, "ServingCheck")["settings"])
    changed = {"serving.rows": settings["serving"]["rows"] + 1}
    other = compilation.compile_job(load_config(recipe, changed), "kubeflow")
    differing = {
        name
        for name, container in containers(kubeflow).items()
        if containers(other)[name] != container
    }
    # Kubeflow's cache key has the arguments of a container. Report shows all settings,
    # and a pushed version carries the names of those that no recipe has.
    assert differing == {"ServingCheck", "AtomicPusher", "Report"}


def test_job_has_the_commits_that_its_version_carries(kubeflow, vertex, recipe):
    for job in (kubeflow, vertex):
        config = json.loads(constants(job, "AtomicPusher")["custom_config"])
        commits = job.staged.records[config["commits_file"]]
        assert commits["recipe_file"] == recipe.name
        assert config["commits_file"].startswith(job.spec["defaultPipelineRoot"])


def test_job_of_changed_files_is_refused_by_the_policy(recipe):
    policy = recipe.with_name("pipeline-policy.yaml")
    policy.write_text("require_commit: committed\n")
    try:
        with refused("E-policy-refused", setting=str(policy)):
            compilation.compile_job(load_config(recipe), "kubeflow")
    finally:
        policy.unlink()


def test_vertex_keeps_the_parameters_that_it_shows(vertex):
    assert "settings" in tasks(vertex)["ServingCheck"]["inputs"]["parameters"]
    for content in vertex.staged.records.values():
        assert content.get("parameters", {}) == {}


@pytest.mark.parametrize(
    ("orchestrator", "of_another"),
    [("kubeflow", {"vertex.machine_type": "n1"}), ("vertex", {"kubeflow.cpu": 2})],
)
def test_change_of_beam_changes_no_cache_key(recipe, orchestrator, of_another, request):
    job = request.getfixturevalue(orchestrator)
    assert job.spec["deploymentSpec"]["executors"]
    for container in containers(job).values():
        assert f"--beam_arguments_file={job.staged.beam_file}" in container["args"]
    beam = {"runner": "portable", "job_endpoint": "beam:8099", "options": ["--x=1"]}
    changed = load_config(recipe, {f"{orchestrator}.beam": beam, **of_another})
    other = compilation.compile_job(changed, orchestrator)
    assert "--job_endpoint=beam:8099" in other.staged.beam_arguments
    # All that the orchestrators' cache keys cover: images, commands, arguments,
    # environment, inputs and outputs.
    assert other.spec == job.spec
    assert other.platform_spec == job.platform_spec
    assert other.staged.beam_file == job.staged.beam_file


def test_jobs_of_other_images_or_orchestrators_have_other_beam_arguments(
    recipe, kubeflow, vertex
):
    changed = load_config(recipe, {"kubeflow.image": "registry/bert:2"})
    other = compilation.compile_job(changed, "kubeflow")
    assert len({job.staged.beam_file for job in (kubeflow, vertex, other)}) == 3


@pytest.mark.parametrize("pusher", ["AtomicPusher", "EndpointPusher"])
def test_pushers_need_the_blessing_of_all_checks(vertex_variant, pusher):
    task = tasks(vertex_variant)[pusher]
    inputs = task["inputs"]["artifacts"]
    assert inputs.keys() == {"model", "infra_blessing"}
    assert inputs["infra_blessing"]["taskOutputArtifact"] == {
        "producerTask": "ModelChecks",
        "outputArtifactKey": "blessing",
    }
    checks = tasks(vertex_variant)["ModelChecks"]["inputs"]["artifacts"]
    assert checks["model_blessing"]["taskOutputArtifact"]["producerTask"] == "Evaluator"
    source = checks["infra_blessing"]["taskOutputArtifact"]["producerTask"]
    assert source == "ServingCheck"


def test_endpoint_is_deployed_to_if_the_recipe_names_one(vertex, vertex_variant):
    assert "EndpointPusher" not in tasks(vertex)
    settings = json.loads(constants(vertex_variant, "EndpointPusher")["custom_config"])
    assert settings["ai_platform_serving_args"]["endpoint_name"] == "paraphrases"


def test_file_extension_decides_what_is_written(kubeflow, vertex, tmp_path):
    compilation.write_job(kubeflow, tmp_path / "pipeline.yaml")
    spec, platform_spec = yaml.safe_load_all((tmp_path / "pipeline.yaml").read_text())
    assert spec == json.loads(json.dumps(kubeflow.spec))
    assert platform_spec == kubeflow.platform_spec
    compilation.write_job(vertex, tmp_path / "job.json")
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["runtimeConfig"]["gcsOutputDirectory"] == ROOT
    with refused("E-format-unknown", setting="package"):
        compilation.write_job(vertex, tmp_path / "job.txt")
    directory = tmp_path / "directory.yaml"
    directory.mkdir()
    got = f"{directory} is a directory"
    with refused("E-storage-failed", setting="package", got=got):
        compilation.write_job(kubeflow, directory)
    names = {"pipeline.yaml", "job.json", "directory.yaml"}
    assert {path.name for path in tmp_path.iterdir()} == names  # nothing incomplete


@pytest.mark.parametrize(
    ("key", "value", "name", "advice"),
    [
        ("kubeflow", None, "E-option-missing", "`kubeflow.image=IMAGE` and"),
        ("name", "my_pipeline", "E-settings-refused", "`name=NAME`"),
    ],
)
def test_recipe_of_which_no_job_is_made_is_refused(recipe, key, value, name, advice):
    with refused(name, setting=key, advice=re.compile(advice)):
        compilation.compile_job(load_config(recipe, {key: value}), "kubeflow")


@pytest.mark.parametrize(
    ("key", "value", "name", "message"),
    [
        (ROOT_KEY, "bucket/bert", "E-settings-refused", ROOT_KEY),
        (ROOT_KEY, "gs://bucket/[1]", "E-path-pattern", "pipeline_root"),
        (ROOT_KEY, "s3://bucket/bert", "E-local-path-required", "s3://bucket/bert"),
        ("vertex.pushed", "minio://bucket/a", "E-local-path-required", "minio://"),
        ("vertex.pushed", "gs://bucket/a*", "E-path-pattern", "pushed"),
        ("kubeflow.nodes", 3, "E-settings-refused", "node_selector"),
        ("vertex.beam.dataflow", {"workers": 3}, "E-settings-refused", "max_workers"),
        ("kubeflow.accelerator_count", 0, "E-settings-refused", "accelerator_count"),
    ],
)
def test_invalid_setting_is_named(recipe, key, value, name, message):
    with refused(name) as caught:
        load_config(recipe, {key: value})
    assert message in str(caught.value)
