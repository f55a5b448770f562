"""ChampionCheck in compiled pipelines; `e2e/` runs the whole jobs."""

import pytest
from tfx import v1 as tfx

from components.champion import ChampionCheck
from contracts.storage import files
from contracts.versions import exported_model
from pipeline import exit_status
from pipeline.beam import beam_arguments
from pipeline.config.beam import BeamConfig
from pipeline.config.orchestrators import OrchestratorConfig
from pipeline.orchestrators.dag_runner import DagRunner
from pipeline.orchestrators.run_files import find_failures
from tests.compiled.runner import JobFailedError, JobRunner

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


def compile_check(serving, directory, keeps_parameters=True):
    """Returns the spec of a check that refuses a champion of other classes.

    Args:
      serving: The directory of the pushed versions; the classes are a and b.
      directory: Of the pipeline's files.
      keeps_parameters: Whether it is compiled as for Vertex AI.
    """
    settings = OrchestratorConfig(image="image:1", pipeline_root=str(directory))
    runner = DagRunner(
        settings,
        component_file=f"{directory}/inputs/components/{{}}.json".format,
        runs_drivers=keeps_parameters,
        keeps_parameters=keeps_parameters,
    )
    check = ChampionCheck(directory=str(serving), expected='{"classes": ["a", "b"]}')
    pipeline = tfx.dsl.Pipeline(
        "small",
        "unused",
        components=[check],
        enable_cache=True,
        beam_pipeline_args=list(beam_arguments(BeamConfig())),
    )
    job = runner.run(pipeline, write_out=False)
    for path, content in runner.component_files.items():
        files.write_json(path, content)
    return job["pipelineSpec"]


def test_champion_is_checked_on_vertex(tmp_path):
    """A component without inputs, outputs and a driver."""
    serving = tmp_path / "serving"
    spec = compile_check(serving, tmp_path)
    with JobRunner("vertex", tmp_path / "root", tmp_path / "state") as runner:
        assert runner.run(spec).states == {"ChampionCheck": "run"}
        exported_model.write_description(str(serving / "1"), {"classes": ["c", "d"]})
        (serving / "1" / "saved_model.pb").touch()
        with pytest.raises(JobFailedError, match="serving/1 has another task: classes"):
            runner.run(spec)


def test_failure_of_a_component_is_recorded_next_to_its_outputs_on_kubeflow(
    pods, bucket, object_store, tmp_path
):
    root = f"{bucket}/root"
    spec = compile_check(f"{root}/serving", root, keeps_parameters=False)
    object_store.write(f"{root}/serving/1/saved_model.pb")
    described = f"{root}/serving/1/{exported_model.DESCRIPTION_FILE}"
    object_store.write(described, '{"classes": ["c", "d"]}')
    with (
        JobRunner("kubeflow", root, tmp_path / "state", store=object_store) as runner,
        pytest.raises(JobFailedError, match="1 has another task: classes") as failed,
    ):
        runner.run(spec)
    run = f"{root}/small/{failed.value.run.id}"
    failure = find_failures(run)["ChampionCheck"]
    assert failure.exit_status == exit_status.USAGE
    (line,) = failure.lines
    assert "serving/1 has another task: classes" in line
