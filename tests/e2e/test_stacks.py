"""Each stack continues with the models and runs of the other (docs/stacks.md)."""

import csv
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.operations.run import Run
from pipeline.operations.runs import RunList
from report.run_metadata import MetadataReader
from tests import tiny
from tests.e2e import commands
from tests.serving.processes import started

# A Python of the other stack, or a program that takes a Python's arguments. It must see
# the same directories and this code.
OTHER = os.environ.get("OTHER_STACK_PYTHON", "")
PYTHONS = {"this": sys.executable, "other": OTHER}
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not OTHER,
        reason="OTHER_STACK_PYTHON does not name a Python of the other stack; "
        "`make test-newest` sets it",
    ),
]
TOLERANCE = 1e-5


@dataclasses.dataclass
class Training:
    """A run of a stack, as this one reads its records."""

    finished: Run
    started_from: str

    @property
    def model(self):
        return self.finished.pushed


def run(recipe, stack, span):
    """Trains on a new span, from the champion if there is one."""
    tiny.write_tables(recipe.parent / "spans" / str(span), rows=40 + span)
    finished = commands.run(
        *("run", "--config", recipe, "--set", "trainer.warm_start=champion"),
        python=PYTHONS[stack],
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    paths = OutputPaths.of(load_config(recipe))
    reader = MetadataReader.of_file(paths.metadata)
    (training,) = (
        reader.outputs(execution)["model_run"]
        for component, execution in reader.latest_run()
        if component.name == "Trainer"
    )
    metrics = json.loads(Path(training.uri, "metrics.json").read_text())
    return Training(RunList(paths).find("latest"), metrics["started_from"])


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    directory = tmp_path_factory.mktemp("stacks")
    data = {"source": f"{directory}/spans/{{SPAN}}"}
    return tiny.write_config(directory / "recipe.yaml", data=data)


@pytest.fixture(scope="module")
def runs(recipe):
    """Three runs with one output: this stack's, the other's, this one's again."""
    order = enumerate(("this", "other", "this"), start=1)
    return [run(recipe, stack, span) for span, stack in order]


@pytest.fixture(scope="module")
def models(runs):
    """The models by the stack that trained them."""
    return {"this": runs[0].model, "other": runs[1].model}


def predict(model, recipe, stack):
    """Returns what a stack predicts for some pairs: classes and probabilities."""
    source = recipe.parent / "data" / "test.tsv"
    destination = recipe.parent / f"{stack}-{model.name}.tsv"
    finished = commands.run(
        *("predict", "--model", model, "--input", source, "--output", destination),
        python=PYTHONS[stack],
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    with destination.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    probabilities = [float(row["probability"]) for row in rows]
    return [row["prediction"] for row in rows], probabilities


def test_the_pythons_are_of_two_stacks():
    show = "import tfx.version; print(tfx.version.__version__)"
    versions = {
        subprocess.run(
            [python, "-c", show], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        for python in PYTHONS.values()
    }
    assert len(versions) == 2


def test_each_warm_starts_from_the_champion_of_the_other_and_compares_with_it(runs):
    first, second, third = runs
    assert first.finished.verdict.champion is None
    for run, champion in ((second, first), (third, second)):
        assert run.started_from == f"the champion {champion.model}"
        assert run.finished.verdict.champion == str(champion.model)
        assert run.finished.verdict.blessed
        assert all(m.champion is not None for m in run.finished.verdict.metrics)


@pytest.mark.parametrize("trained", ["this", "other"])
def test_both_predict_the_same_with_a_model(models, recipe, trained):
    classes, expected = predict(models[trained], recipe, "this")
    assert len(set(expected)) > 2
    other_classes, other = predict(models[trained], recipe, "other")
    assert other_classes == classes
    assert other == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("trained", ["this", "other"])
def test_both_serve_the_same_predictions_of_a_model(models, trained):
    columns = ("sentence1", "sentence2")
    instances = [dict(zip(columns, texts, strict=True)) for _, *texts in tiny.pairs(8)]
    served = []
    for python in PYTHONS.values():
        with started(
            models[trained], "--name", "tiny", "--grpc-port", "0", python=python
        ) as server:
            response = server.http.post(
                "/v1/models/tiny:predict", json={"instances": instances}
            )
        assert response.status_code == 200, response.text
        served.append([row["probabilities"] for row in response.json()["predictions"]])
    for row, (left, right) in enumerate(zip(*served, strict=True)):
        assert left == pytest.approx(right, abs=TOLERANCE), row
