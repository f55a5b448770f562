"""Compiled jobs, run on this machine as their clusters run them.

From the sample's pairs to a pushed SavedModel, twice: the second run has a champion.
"""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
import yaml

from components.evaluator import read_verdict
from pipeline.config.paths import REPOSITORY
from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation, staging
from tests import tiny
from tests.compiled import worker
from tests.compiled.runner import JobRun, JobRunner
from tests.compiled.spec import check_spec

pytestmark = pytest.mark.e2e

TRAINED_AGAIN = {"Hyperparameters", "Trainer", "Champion", "Evaluator"}
CHECKED_AGAIN = {"ServingCheck", "AtomicPusher"}


@dataclasses.dataclass
class Story:
    """Two runs of one compiled job, the second with another learning rate."""

    target: str
    directory: Path
    documents: list[Any]
    first: JobRun
    second: JobRun

    @property
    def served(self):
        """What was pushed, the oldest first."""
        return sorted((self.directory / "root" / "serving" / "tiny").iterdir())

    def verdict(self, run):
        return read_verdict(run.tasks["Evaluator"].outputs["verdict"]["uri"])


@pytest.fixture(scope="module")
def server():
    with worker.start() as server:
        yield server


@pytest.fixture(scope="module", params=compilation.TARGETS)
def story(request, server, tmp_path_factory):
    target = request.param
    directory = tmp_path_factory.mktemp(target)
    root = directory / "root"
    cluster = {"image": "registry/bert:1", "pipeline_root": str(root)}
    if target == "vertex":
        cluster |= {"project": "project", "region": "europe-west4"}
    recipe = tiny.write_config(
        directory / "recipe.yaml",
        data={"source": str(REPOSITORY / "sample_data")},
        evaluator={
            "thresholds": {"accuracy": 0.0},
            "max_regression": {"accuracy": 1.0},
        },
        **{target: cluster},
    )
    job = compilation.compile_job(load_config(recipe), target)
    package = directory / "pipeline.yaml"
    compilation.write_job(job, package)
    staging.copy(job.staged)
    # The cluster has nothing of this machine.
    for folder in ("encoder", "output"):
        shutil.rmtree(directory / folder)
    documents = list(yaml.safe_load_all(package.read_text()))
    with JobRunner(target, root, directory / "state", server=server) as runner:
        first = runner.run(documents[0])
        second = runner.run(documents[0], parameters={"learning_rate": 0.002})
    return Story(target, directory, documents, first, second)


def test_package_is_what_the_clusters_protos_and_loader_take(story):
    check_spec(*story.documents)


def test_first_run_goes_from_pairs_to_a_model_that_answers(story):
    assert set(story.first.states.values()) == {"run"}
    first, _ = story.served
    assert story.first.tasks["AtomicPusher"].outputs["pushed_model"]["metadata"][
        "pushed_destination"
    ] == str(first)
    signature = tf.saved_model.load(str(first)).signatures["serving_default"]
    answer = signature(
        sentence1=tf.constant(["The cat."]), sentence2=tf.constant(["A cat!"])
    )
    assert answer["probabilities"].shape == (1, 2)


def test_first_verdict_is_by_absolute_thresholds_alone(story):
    verdict = story.verdict(story.first)
    assert verdict.blessed
    assert verdict.champion is None
    assert "absolute thresholds alone" in verdict.summary


def test_second_run_is_compared_with_what_the_first_one_pushed(story):
    first, second = story.served
    verdict = story.verdict(story.second)
    assert verdict.champion == str(first)
    before = {m.metric: m.value for m in story.verdict(story.first).metrics}
    for metric in verdict.metrics:
        assert metric.champion == pytest.approx(before[metric.metric], nan_ok=True)
    pushed = story.second.tasks["AtomicPusher"].outputs["pushed_model"]["metadata"]
    assert pushed["pushed_destination"] == str(second)


def test_parameter_of_the_run_reaches_the_training_and_reruns_what_hangs_on_it(story):
    for run, rate in ((story.first, 0.001), (story.second, 0.002)):
        uri = run.tasks["Hyperparameters"].outputs["hyperparameters"]["uri"]
        (path,) = Path(uri).iterdir()
        assert json.loads(path.read_text())["learning_rate"] == rate
    ran = {name for name, state in story.second.states.items() if state == "run"}
    assert ran == TRAINED_AGAIN | CHECKED_AGAIN


def test_serving_check_blesses_what_it_measured(story):
    blessing = story.second.tasks["ServingCheck"].outputs["blessing"]
    assert blessing["metadata"]["blessed"] == 1
    report = json.loads((Path(blessing["uri"]) / "serving_check.json").read_text())
    assert report["reasons"] == []
    assert max(report["max_skew"].values()) < 1e-5


def test_trainer_is_a_custom_job_on_vertex_alone(story):
    jobs = [*story.first.custom_jobs, *story.second.custom_jobs]
    if story.target == "kubeflow":
        assert jobs == []
        return
    assert [job.state for job in jobs] == ["JOB_STATE_SUCCEEDED"] * 2
    assert jobs[0].parent == "projects/project/locations/europe-west4"
    (pool,) = jobs[0].request["job_spec"]["worker_pool_specs"]
    assert pool["machine_spec"]["machine_type"] == "n1-standard-8"
    assert pool["container_spec"]["image_uri"] == "registry/bert:1"
