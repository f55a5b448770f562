"""Pipelines of TFX components, compiled and run as on Vertex AI.

The nightly tests test `JobRunner` itself; `e2e/` runs the jobs of this project with it,
also as on Kubeflow.
"""

import os
from pathlib import Path

import pytest
import tensorflow as tf

from components.champion import ChampionCheck
from contracts.storage import files
from contracts.versions import exported_model
from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.orchestrators import OrchestratorConfig
from pipeline.orchestrators.dag_runner import DagRunner
from pipeline.orchestrators.run_files import find_failures
from tests.compiled import steps
from tests.compiled.runner import JobFailedError, JobRunner
from tests.compiled.spec import SpecRefusedError, check_spec

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """A backend that all tests share."""
    directory = tmp_path_factory.mktemp("vertex")
    with JobRunner("vertex", directory / "root", directory / "state") as started:
        yield started


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    write_examples(directory)
    return directory


@pytest.fixture(scope="module")
def standard_runs(runner, data):
    """Two runs of the standard pipeline; the second one is cached."""
    spec = standard_pipeline(data)
    check_spec(spec)
    return [runner.run(spec, parameters={"word": "tree"}) for _ in range(2)]


def compile_pipeline(components, directory, keeps_parameters=True):
    """Returns the spec of a pipeline, whose files are below a directory."""
    from tfx import v1 as tfx

    settings = OrchestratorConfig(image="image:1", pipeline_root=str(directory))
    runner = DagRunner(
        settings,
        component_file=f"{directory}/inputs/components/{{}}.json".format,
        runs_drivers=keeps_parameters,
        keeps_parameters=keeps_parameters,
    )
    pipeline = tfx.dsl.Pipeline(
        "small",
        "unused",
        components=components,
        enable_cache=True,
        beam_pipeline_args=list(beam_arguments(BeamConfig())),
    )
    job = runner.run(pipeline, write_out=False)
    for path, content in runner.component_files.items():
        files.write_json(path, content)
    return job["pipelineSpec"]


def write_examples(directory):
    for split in ("train", "eval"):
        (directory / split).mkdir(parents=True)
        with tf.io.TFRecordWriter(str(directory / split / "data")) as writer:
            for value in range(8):
                feature = tf.train.Feature(
                    float_list=tf.train.FloatList(value=[float(value)])
                )
                example = tf.train.Example(
                    features=tf.train.Features(feature={"x": feature})
                )
                writer.write(example.SerializeToString())


def example_gen(directory):
    from tfx import v1 as tfx

    splits = [
        tfx.proto.Input.Split(name=name, pattern=f"{name}/*")
        for name in ("train", "eval")
    ]
    return tfx.components.ImportExampleGen(
        input_base=str(directory), input_config=tfx.proto.Input(splits=splits)
    )


def standard_pipeline(directory):
    from tfx import v1 as tfx

    examples = example_gen(directory)
    statistics = tfx.components.StatisticsGen(examples=examples.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    transform = tfx.components.Transform(
        examples=examples.outputs["examples"],
        schema=schema.outputs["schema"],
        preprocessing_fn="tests.compiled.steps.preprocessing_fn",
    )
    flaky = steps.Flaky(
        examples=examples.outputs["examples"],
        word=tfx.dsl.experimental.RuntimeParameter(name="word", ptype=str),
        number=tfx.dsl.experimental.RuntimeParameter(name="number", ptype=int),
    )
    spec = compile_pipeline([examples, statistics, schema, transform, flaky], directory)
    declared = spec["root"]["inputDefinitions"]["parameters"]
    declared["number"]["defaultValue"] = 7
    return spec


@pytest.mark.nightly
def test_standard_components_run_and_are_cached(standard_runs):
    first, second = standard_runs
    assert set(first.states.values()) == {"run"}
    assert first.tasks["Flaky"].attempts == steps.ATTEMPTS
    metadata = first.tasks["Flaky"].outputs["report"]["metadata"]
    assert (metadata["word"], metadata["number"]) == ("tree", 7)
    assert metadata["splits"] == '["train", "eval"]'
    graph = first.tasks["Transform"].outputs["transform_graph"]["uri"]
    assert os.path.exists(os.path.join(graph, "transform_fn", "saved_model.pb"))
    assert set(second.states.values()) == {"cached"}
    assert second.tasks["Transform"].outputs == first.tasks["Transform"].outputs
    example_gen = first.tasks["ImportExampleGen"]
    # ExampleGen's driver has run.
    assert "span" in example_gen.executor_input["inputs"]["parameterValues"]
    assert "Calculated span: 0" in example_gen.log.read_text()


def vertex_trainer(directory, **pool):
    from tfx import v1 as tfx
    from tfx.v1.extensions import google_cloud_ai_platform as gcaip

    examples = example_gen(directory)
    machine = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
    container = {
        "image_uri": "image:1",
        "env": [{"name": "FROM_THE_JOB", "value": "1"}],
    }
    trainer = gcaip.Trainer(
        examples=examples.outputs["examples"],
        run_fn="tests.compiled.steps.run_fn",
        train_args=tfx.proto.TrainArgs(num_steps=1),
        eval_args=tfx.proto.EvalArgs(num_steps=1),
        custom_config={
            gcaip.ENABLE_VERTEX_KEY: True,
            gcaip.VERTEX_REGION_KEY: "us-central1",
            gcaip.TRAINING_ARGS_KEY: {
                "project": "somebody",
                "display_name": "training",
                "labels": {"team": "text"},
                "job_spec": {
                    "worker_pool_specs": [
                        {**machine, "container_spec": container, **pool}
                    ]
                },
            },
            "word": "oak",
        },
    )
    return compile_pipeline([examples, trainer], directory)


@pytest.mark.nightly
@pytest.mark.usefixtures("standard_runs")
def test_trainer_runs_as_a_custom_job(runner, data):
    run = runner.run(vertex_trainer(data))
    assert run.states == {"ImportExampleGen": "cached", "Trainer": "run"}
    (job,) = run.custom_jobs
    assert job.state == "JOB_STATE_SUCCEEDED"
    assert job.parent == "projects/somebody/locations/us-central1"
    assert job.request["display_name"] == "training"
    assert job.request["labels"]["team"] == "text"
    (pool,) = job.request["job_spec"]["worker_pool_specs"]
    assert pool["container_spec"]["image_uri"] == "image:1"
    assert "tfx.scripts.run_executor" in pool["container_spec"]["command"]
    model = Path(run.tasks["Trainer"].outputs["model"]["uri"]) / "Format-Serving"
    # A word of custom_config, and a variable of the job, which the task does not have.
    assert (model / "model.txt").read_text() == "oak 1"
    assert "writes the model" in job.log.read_text()
    assert "writes the model" not in run.tasks["Trainer"].log.read_text()


@pytest.mark.nightly
@pytest.mark.usefixtures("standard_runs")
def test_failed_custom_job_fails_its_task(runner, data):
    spec = vertex_trainer(data, container_spec={"image_uri": "image:1"})
    with pytest.raises(JobFailedError, match="did not succeed") as failed:
        runner.run(spec)
    job, *_ = failed.value.run.custom_jobs  # one per attempt
    assert job.state == "JOB_STATE_FAILED"
    assert "KeyError: 'FROM_THE_JOB'" in job.log.read_text()


@pytest.mark.nightly
def test_resolver_is_refused(runner):
    from tfx import v1 as tfx

    config = tfx.orchestration.experimental.KubeflowV2DagRunnerConfig(
        default_image="image:1", use_pipeline_spec_2_1=True
    )
    resolver = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestArtifactStrategy,
        examples=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Examples),
    ).with_id("Latest")
    pipeline = tfx.dsl.Pipeline("small", "unused", components=[resolver])
    job = tfx.orchestration.experimental.KubeflowV2DagRunner(config).run(
        pipeline, write_out=False
    )
    with pytest.raises(SpecRefusedError, match="task Latest: resolver not implemented"):
        runner.run(job["pipelineSpec"])


def champion_check(serving):
    """Refuses a champion of other classes than a and b."""
    return ChampionCheck(directory=serving, expected='{"classes": ["a", "b"]}')


@pytest.mark.nightly
def test_champion_is_checked_on_vertex(runner, tmp_path):
    """A component without inputs, outputs and a driver."""
    serving = tmp_path / "serving"
    spec = compile_pipeline([champion_check(str(serving))], tmp_path)
    assert runner.run(spec).states == {"ChampionCheck": "run"}
    exported_model.write_description(str(serving / "1"), {"classes": ["c", "d"]})
    (serving / "1" / "saved_model.pb").touch()
    with pytest.raises(JobFailedError, match="serving/1: classes"):
        runner.run(spec)


@pytest.mark.nightly
def test_failure_of_a_component_is_recorded_next_to_its_outputs_on_kubeflow(
    pods, bucket, object_store, tmp_path
):
    root = f"{bucket}/root"
    check = champion_check(f"{root}/serving")
    spec = compile_pipeline([check], root, keeps_parameters=False)
    object_store.write(f"{root}/serving/1/saved_model.pb")
    described = f"{root}/serving/1/{exported_model.DESCRIPTION_FILE}"
    object_store.write(described, '{"classes": ["c", "d"]}')
    with (
        JobRunner("kubeflow", root, tmp_path / "state", store=object_store) as runner,
        pytest.raises(JobFailedError, match="serving/1: classes") as failed,
    ):
        runner.run(spec)
    run = f"{root}/small/{failed.value.run.id}"
    failure = find_failures(run)["ChampionCheck"]
    assert failure.exit_status == 1
    assert "serving/1: classes" in failure.lines[-1]
