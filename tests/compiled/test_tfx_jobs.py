"""Pipelines of TFX components, compiled and run.

The nightly tests test `JobRunner` itself; `e2e/` runs the jobs of this project with it.
"""

import contextlib
import os
from pathlib import Path

import pytest
import tensorflow as tf

from components.champion import ChampionCheck
from pipeline.beam import IN_PROCESS
from tests.compiled import steps, worker
from tests.compiled.runner import JobFailedError, JobRunner
from tests.compiled.spec import SpecRefusedError, check_spec

pytestmark = pytest.mark.slow

ENTRY_POINT = ["python", "-m", "pipeline.entrypoint"]
TFX_ENTRY_POINT = [
    "python",
    "-m",
    "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor",
]
BACKENDS = ["kubeflow", "vertex"]


@pytest.fixture(scope="module")
def runners(tmp_path_factory):
    """A backend of each kind, with one worker, shared by all tests."""
    directory = tmp_path_factory.mktemp("backends")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(worker.start())
        yield {
            backend: stack.enter_context(
                JobRunner(
                    backend,
                    directory / backend / "root",
                    directory / backend / "state",
                    server=server,
                )
            )
            for backend in BACKENDS
        }


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    write_examples(directory)
    return directory


@pytest.fixture(scope="module")
def standard_runs(runners, data):
    """Two runs of the standard pipeline on each backend; ExampleGen is cached then."""
    spec = standard_pipeline(data)
    check_spec(spec)
    return {
        backend: [runner.run(spec, parameters={"word": "tree"}) for _ in range(2)]
        for backend, runner in runners.items()
    }


def compile_pipeline(components, command=ENTRY_POINT):
    from tfx import v1 as tfx
    from tfx.orchestration.kubeflow.v2 import kubeflow_v2_dag_runner as compiler

    config = compiler.KubeflowV2DagRunnerConfig(
        default_image="image:1", default_commands=command, use_pipeline_spec_2_1=True
    )
    pipeline = tfx.dsl.Pipeline(
        "small",
        "unused",
        components=components,
        enable_cache=True,
        beam_pipeline_args=list(IN_PROCESS),
    )
    job = compiler.KubeflowV2DagRunner(config).run(pipeline, write_out=False)
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
    spec = compile_pipeline([examples, statistics, schema, transform, flaky])
    declared = spec["root"]["inputDefinitions"]["parameters"]
    declared["number"]["defaultValue"] = 7
    spec["root"]["dag"]["tasks"]["Flaky"]["retryPolicy"] = {"maxRetryCount": 2}
    return spec


@pytest.mark.nightly
@pytest.mark.parametrize("backend", BACKENDS)
def test_standard_components_run_and_are_cached(backend, standard_runs):
    first, second = standard_runs[backend]
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
    parameters = example_gen.executor_input["inputs"]["parameterValues"]
    # ExampleGen's driver has run on Vertex alone.
    assert ("span" in parameters) == (backend == "vertex")
    has_log = "Calculated span: 0" in example_gen.log.read_text()
    assert has_log == (backend == "vertex")


@pytest.mark.nightly
def test_untyped_inputs_stop_the_entry_point_of_tfx_on_kubeflow(runners, data):
    from tfx import v1 as tfx

    examples = example_gen(data)
    statistics = tfx.components.StatisticsGen(examples=examples.outputs["examples"])
    spec = compile_pipeline([examples, statistics], TFX_ENTRY_POINT)
    with pytest.raises(JobFailedError, match="StatisticsGen") as failed:
        runners["kubeflow"].run(spec)
    assert "'NoneType' object has no attribute 'get'" in str(failed.value)
    assert failed.value.run.states == {
        "ImportExampleGen": "run",
        "StatisticsGen": "failed",
    }


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
    return compile_pipeline([examples, trainer])


@pytest.mark.nightly
@pytest.mark.usefixtures("standard_runs")
def test_trainer_runs_as_a_custom_job(runners, data):
    run = runners["vertex"].run(vertex_trainer(data))
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
def test_failed_custom_job_fails_its_task(runners, data):
    spec = vertex_trainer(data, container_spec={"image_uri": "image:1"})
    with pytest.raises(JobFailedError, match="did not succeed") as failed:
        runners["vertex"].run(spec)
    (job,) = failed.value.run.custom_jobs
    assert job.state == "JOB_STATE_FAILED"
    assert "KeyError: 'FROM_THE_JOB'" in job.log.read_text()


@pytest.mark.nightly
@pytest.mark.parametrize("backend", BACKENDS)
def test_resolver_is_refused(backend, runners):
    from tfx import v1 as tfx

    resolver = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestArtifactStrategy,
        examples=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Examples),
    ).with_id("Latest")
    with pytest.raises(SpecRefusedError, match="task Latest: resolver not implemented"):
        runners[backend].run(compile_pipeline([resolver]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_champion_is_checked_by_an_orchestrator(backend, runners, tmp_path):
    """A component without inputs, outputs and a driver."""
    check = ChampionCheck(
        directory=str(tmp_path / "serving"),
        find_difference=f"{steps.__name__}.find_difference",
        expected='"reason"',
    )
    spec = compile_pipeline([check])
    spec["root"]["dag"]["tasks"]["ChampionCheck"].pop("cachingOptions")
    assert runners[backend].run(spec).states == {"ChampionCheck": "run"}
    (tmp_path / "serving" / "1").mkdir(parents=True)
    with pytest.raises(JobFailedError, match="serving/1: reason"):
        runners[backend].run(spec)
