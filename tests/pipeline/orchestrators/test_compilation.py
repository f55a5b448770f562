"""What is compiled for which cluster."""

import copy
import json

import pytest
import yaml

from pipeline.config.errors import UsageError
from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation
from tests import tiny

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
ROOT = "gs://bucket/bert"
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


def tasks(job):
    return job.spec["root"]["dag"]["tasks"]


def containers(job):
    executors = job.spec["deploymentSpec"]["executors"]
    return {
        name.removesuffix("_executor"): executor["container"]
        for name, executor in executors.items()
    }


def constants(job, task):
    return {
        name: value["runtimeValue"]["constant"]
        for name, value in tasks(job)[task]["inputs"]["parameters"].items()
        if "runtimeValue" in value
    }


def test_both_clusters_run_the_same_components(kubeflow, vertex):
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


def test_schema_image_and_pipeline_root_are_the_configs(kubeflow, vertex):
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


def test_trainer_alone_gets_the_resources(kubeflow, vertex):
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


def test_trainer_alone_is_bound_to_nodes(kubeflow):
    executors = kubeflow.platforms["platforms"]["kubernetes"]["deploymentSpec"]
    assert executors == {
        "executors": {
            "Trainer_executor": {"nodeSelector": {"labels": KUBEFLOW["node_selector"]}}
        }
    }


def test_every_task_is_tried_again(kubeflow):
    for task in tasks(kubeflow).values():
        assert task["retryPolicy"]["maxRetryCount"] == 3


def test_all_but_the_champion_are_cached(kubeflow, vertex):
    for job in (kubeflow, vertex):
        cached = {
            name
            for name, task in tasks(job).items()
            if task.get("cachingOptions", {}).get("enableCache")
        }
        assert set(tasks(job)) - cached == {"Champion"}


def test_champion_is_checked_before_training_where_it_must_be_comparable(
    recipe, kubeflow, vertex
):
    settings = {"evaluator.incompatible_champion": "refuse"}
    for target, other in (("kubeflow", kubeflow), ("vertex", vertex)):
        job = compilation.compile_job(load_config(recipe, settings), target)
        assert set(tasks(job)) - set(tasks(other)) == {"ChampionCheck"}
        assert "cachingOptions" not in tasks(job)["ChampionCheck"]
        assert "ChampionCheck" in tasks(job)["Transform"]["dependentTasks"]


def test_champion_to_start_from_is_looked_up_once_for_each_data(
    recipe, kubeflow, vertex
):
    settings = {"trainer.warm_start": "champion"}
    for target, other in (("kubeflow", kubeflow), ("vertex", vertex)):
        job = compilation.compile_job(load_config(recipe, settings), target)
        assert set(tasks(job)) - set(tasks(other)) == {"WarmStart"}
        task = tasks(job)["WarmStart"]
        assert task["cachingOptions"] == {"enableCache": True}
        assert task["dependentTasks"] == ["ImportExampleGen"]
        assert constants(job, "WarmStart")["directory"] == f"{ROOT}/serving/tiny"
        assert "WarmStart" in tasks(job)["Trainer"]["dependentTasks"]


def test_newest_span_is_settled_when_the_job_is_compiled(tmp_path):
    source = f"{tmp_path}/spans/{{SPAN}}"
    tiny.write_tables(tmp_path / "spans" / "03")
    recipe = tiny.write_config(
        tmp_path / "recipe.yaml", data={"source": source}, vertex=VERTEX
    )
    said = []
    job = compilation.compile_job(load_config(recipe), "vertex", said.append)
    assert f"span 3 of {source}: newest of 1" in said
    data = job.spec["root"]["inputDefinitions"]["parameters"]["data"]
    assert data["defaultValue"].startswith(f"{ROOT}/inputs/examples/span-3/")
    assert "{SPAN" not in json.dumps(job.spec)


def test_without_cache_and_retries_no_task_has_either(recipe):
    settings = {"kubeflow.cache": False, "kubeflow.retries": 0}
    job = compilation.compile_job(load_config(recipe, settings), "kubeflow")
    for task in tasks(job).values():
        assert "cachingOptions" not in task
        assert "retryPolicy" not in task


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
    }


def test_no_task_reads_a_path_of_this_machine(kubeflow, vertex, recipe):
    for job in (kubeflow, vertex):
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
    assert pool["container_spec"]["image_uri"] == "registry/bert:1"
    assert arguments["job_spec"]["service_account"] == VERTEX["service_account"]


def test_tpu_is_chosen_by_the_machine_type(recipe):
    settings = {
        "vertex.machine_type": "ct5lp-hightpu-4t",
        "vertex.tpu_topology": "2x2",
        "vertex.accelerator": None,
        "trainer.strategy": "tpu",
    }
    job = compilation.compile_job(load_config(recipe, settings), "vertex")
    custom_config = json.loads(constants(job, "Trainer")["custom_config"])
    arguments = custom_config["ai_platform_training_args"]
    (pool,) = arguments["job_spec"]["worker_pool_specs"]
    assert pool["machine_spec"] == {
        "machine_type": "ct5lp-hightpu-4t",
        "tpu_topology": "2x2",
    }


def test_dataflow_runs_beam_on_vertex_and_the_pods_own_process_on_kubeflow(
    kubeflow, vertex
):
    arguments = containers(vertex)["Transform"]["args"]
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
        for argument in containers(kubeflow)["Transform"]["args"]
        if argument.startswith("--runner")
    )
    assert runner.endswith("FnApiRunner")


def test_endpoint_is_deployed_to_after_both_checks(recipe, vertex):
    assert "EndpointPusher" not in tasks(vertex)
    endpoint = {"name": "paraphrases", "image": "registry/serving:1"}
    job = compilation.compile_job(
        load_config(recipe, {"vertex.endpoint": endpoint}), "vertex"
    )
    task = tasks(job)["EndpointPusher"]
    assert {"Evaluator", "ServingCheck", "Trainer"} <= set(task["dependentTasks"])
    settings = json.loads(constants(job, "EndpointPusher")["custom_config"])
    assert settings["ai_platform_serving_args"]["endpoint_name"] == "paraphrases"


def test_job_is_the_same_whenever_it_is_compiled_of_the_same(recipe, kubeflow):
    again = compilation.compile_job(load_config(recipe), "kubeflow")
    assert again.spec == kubeflow.spec
    changed = load_config(recipe, {"vertex.machine_type": "n1-standard-4"})
    assert compilation.compile_job(changed, "kubeflow").spec == kubeflow.spec


def test_job_is_written_as_its_name_asks(kubeflow, vertex, tmp_path):
    compilation.write_job(kubeflow, tmp_path / "pipeline.yaml")
    spec, platforms = yaml.safe_load_all((tmp_path / "pipeline.yaml").read_text())
    assert spec == json.loads(json.dumps(kubeflow.spec))
    assert platforms == kubeflow.platforms
    compilation.write_job(vertex, tmp_path / "job.json")
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["runtimeConfig"]["gcsOutputDirectory"] == ROOT
    with pytest.raises(UsageError, match=r"job\.txt: allowed are \.yaml"):
        compilation.write_job(copy.copy(vertex), tmp_path / "job.txt")


def test_cluster_without_settings_is_refused_with_what_it_needs(tmp_path):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    with pytest.raises(UsageError, match=r"no section kubeflow; .* image and"):
        compilation.compile_job(config, "kubeflow")


def test_name_that_no_cluster_takes_is_refused(recipe):
    config = load_config(recipe, {"name": "my_pipeline"})
    with pytest.raises(UsageError, match=r"name is 'my_pipeline'.*dashes"):
        compilation.compile_job(config, "kubeflow")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kubeflow.pipeline_root": "bucket/bert"}, "kubeflow.pipeline_root"),
        ({"kubeflow.nodes": 3}, "node_selector"),
        ({"vertex.beam.dataflow": {"workers": 3}}, "max_workers"),
        ({"kubeflow.accelerator_count": 0}, "accelerator_count"),
    ],
)
def test_invalid_setting_is_refused_with_the_allowed_values(recipe, settings, message):
    with pytest.raises(UsageError, match=message):
        load_config(recipe, settings)
