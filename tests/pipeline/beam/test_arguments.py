"""Beam's arguments of each runner."""

import os
import re
from importlib import metadata
from pathlib import Path

import pytest
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import PipelineOptions
from tfx.utils import dependency_utils

from pipeline.beam import beam_arguments
from pipeline.config import paths
from pipeline.config.beam import BeamConfig
from pipeline.config.recipe import load_config
from tests import tiny
from tests.refusals import refused


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home directory, on a machine with Java."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(paths, "JOB_SERVERS", tmp_path / "job-servers")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(java.parent), prepend=os.pathsep)
    return tmp_path


def write_jar(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"PK")
    return str(path)


def standard(arguments):
    return PipelineOptions(list(arguments)).view_as(pipeline_options.StandardOptions)


def test_default_runner_is_in_process():
    runner = standard(beam_arguments(BeamConfig())).runner
    assert runner.endswith(".FnApiRunner")


@pytest.mark.parametrize("runner", ["in_process", "multi_processing", "portable"])
def test_tfx_does_not_package_itself_for_workers(runner, monkeypatch):
    config = BeamConfig(runner=runner, job_endpoint="localhost:1")
    arguments = list(beam_arguments(config))
    monkeypatch.setattr(dependency_utils, "build_ephemeral_package", None)
    assert dependency_utils.make_beam_dependency_flags(arguments) == arguments


def test_multi_processing_starts_a_process_per_core_by_default():
    direct = pipeline_options.DirectOptions
    arguments = beam_arguments(BeamConfig(runner="multi_processing"))
    options = PipelineOptions(list(arguments)).view_as(direct)
    assert options.direct_running_mode == "multi_processing"
    assert options.direct_num_workers == 0
    arguments = beam_arguments(BeamConfig(runner="multi_processing", workers=3))
    assert PipelineOptions(list(arguments)).view_as(direct).direct_num_workers == 3


def test_local_flink_uses_two_slots_and_the_jar_of_maven(home):
    version = metadata.version("apache-beam")
    name = "beam-runners-flink-1.19-job-server"
    folder = home / ".m2/repository/org/apache/beam" / name / version
    jar = write_jar(folder / f"{name}-{version}.jar")
    arguments = beam_arguments(BeamConfig(runner="flink", workers=2))
    options = PipelineOptions(list(arguments))
    flink = options.view_as(pipeline_options.FlinkRunnerOptions)
    assert standard(arguments).runner.endswith(".FlinkRunner")
    assert (flink.flink_master, flink.parallelism) == ("[local]", 2)
    assert flink.flink_job_server_jar == jar
    portable = options.view_as(pipeline_options.PortableOptions)
    assert portable.environment_type == "LOOPBACK"


@pytest.mark.parametrize(
    ("runner", "artifact"),
    [("flink", "beam-runners-flink-1.19"), ("spark", "beam-runners-spark-3")],
)
def test_assembled_job_server_of_the_newest_beam_is_used(home, runner, artifact):
    folder = home / "job-servers"
    write_jar(folder / f"{artifact}-job-server-2.9.0.jar")
    jar = write_jar(folder / f"{artifact}-job-server-2.50.0.jar")
    arguments = beam_arguments(BeamConfig(runner=runner))
    assert f"--{runner}_job_server_jar={jar}" in arguments


def test_flink_cluster_with_workers_in_a_container(home):
    config = BeamConfig(
        runner="flink",
        master="flink:8081",
        job_server_jar=write_jar(home / "server.jar"),
        environment="docker",
        environment_config="registry/bert:1",
        options=["--max_bundle_size=500"],
    )
    arguments = beam_arguments(config)
    assert "--flink_master=flink:8081" in arguments
    assert "--max_bundle_size=500" in arguments
    options = PipelineOptions(list(arguments))
    portable = options.view_as(pipeline_options.PortableOptions)
    assert portable.environment_type == "DOCKER"
    assert portable.environment_config == "registry/bert:1"


def test_spark_uses_the_jar_that_beam_downloaded(home):
    version = metadata.version("apache-beam")
    name = f"beam-runners-spark-3-job-server-{version}.jar"
    jar = write_jar(home / ".apache_beam/cache/jars" / name)
    arguments = beam_arguments(BeamConfig(runner="spark", workers=2))
    options = PipelineOptions(list(arguments))
    spark = options.view_as(pipeline_options.SparkRunnerOptions)
    assert spark.spark_master_url == "local[2]"
    assert spark.spark_job_server_jar == jar


@pytest.mark.parametrize("runner", ["flink", "spark"])
def test_missing_job_server_is_refused_with_the_command_to_get_it(home, runner):
    version = metadata.version("apache-beam")
    with refused(
        "E-job-server-not-found",
        setting="beam.job_server_jar",
        got=f"the job server of the runner {runner} is not on this machine",
        advice=re.compile(
            "`make job-servers` .* `mvn dependency:get -Dtransitive=false "
            f"-Dartifact=.*job-server:{version}`"
        ),
    ):
        beam_arguments(BeamConfig(runner=runner))


def test_missing_java_is_refused_before_a_missing_job_server(home, monkeypatch):
    monkeypatch.setenv("PATH", str(home))
    got = re.compile("^flink, .* `java` is not on the PATH")
    with refused("E-job-server-not-found", setting="beam.runner", got=got):
        beam_arguments(BeamConfig(runner="flink"))


@pytest.mark.parametrize(
    ("jar", "is_here", "got"),
    [
        ("none.jar", True, "none.jar is not a file"),
        (None, False, "not set, but required by the runner flink in a container"),
    ],
)
@pytest.mark.usefixtures("home")
def test_job_server_must_be_a_file(jar, is_here, got):
    config = BeamConfig(runner="flink", job_server_jar=jar)
    with refused("E-job-server-not-found", setting="beam.job_server_jar", got=got):
        beam_arguments(config, is_here=is_here)


def test_job_server_in_a_container_is_the_configured_one():
    config = BeamConfig(runner="flink", job_server_jar="/opt/beam/server.jar")
    arguments = beam_arguments(config, is_here=False)
    assert "--flink_job_server_jar=/opt/beam/server.jar" in arguments


def test_dataflow_without_a_project_is_refused():
    with refused("E-option-missing", setting="beam.dataflow.project"):
        beam_arguments(BeamConfig(runner="dataflow"))


def test_portable_workers_run_the_configured_command():
    config = BeamConfig(
        runner="portable",
        job_endpoint="localhost:8099",
        environment="process",
        environment_config="/opt/apache/beam/boot",
    )
    options = PipelineOptions(list(beam_arguments(config)))
    portable = options.view_as(pipeline_options.PortableOptions)
    assert portable.job_endpoint == "localhost:8099"
    assert portable.environment_type == "PROCESS"
    command = portable.lookup_environment_option("process_command")
    assert command == "/opt/apache/beam/boot"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam.runner": "storm"}, "'in_process', 'multi_processing', 'flink'"),
        ({"beam.runner": "portable"}, "job_endpoint"),
        ({"beam.workers": 0}, "beam.workers"),
        ({"beam.environment": "docker"}, "environment_config"),
        ({"beam.options": ["fast"]}, "'fast'"),
    ],
)
def test_invalid_setting_is_named_with_the_allowed_values(tmp_path, settings, message):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    with refused("E-settings-refused") as caught:
        load_config(recipe, settings)
    assert message in str(caught.value)
