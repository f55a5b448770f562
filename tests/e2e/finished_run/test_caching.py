"""A run executes the components that an edit concerns, and no others."""

import json
import shutil
from pathlib import Path

import pytest

from modules.training import experiment, run_fn
from tests import tiny
from tests.e2e import temporary_files
from tests.e2e.finished_run.components import DATA, EVERYTHING

pytestmark = pytest.mark.e2e


def test_first_run_executes_everything_and_pushes_without_a_champion(finished):
    assert finished.executed() == set(EVERYTHING)
    assert finished.run.pushed is not None
    assert finished.run.verdict.champion is None


def test_other_runner_of_beam_executes_nothing(run, monkeypatch):
    monkeypatch.setattr(experiment, "build_experiment", None)  # no training starts
    _, executed = run(beam__runner="multi_processing", beam__workers=2)
    assert executed == set()


@pytest.mark.nightly
def test_other_decision_exports_again_and_trains_nothing(run, finished, monkeypatch):
    monkeypatch.setattr(run_fn, "build_trainer", None)  # no training starts
    # All rows are predicted as the positive class, as a low cost of that error asks.
    costs = {"false_positive": 0.001, "false_negative": 1000.0}
    latest, executed = run(task__decision={"costs": costs})
    assert "Trainer" in executed
    assert not {"Transform", "ImportExampleGen"} & executed
    run_record = Path(finished.output("Trainer", "model_run").uri)
    decision = json.loads((run_record / "metrics.json").read_text())["decision"]
    assert decision["threshold"] < 0.5
    # The gate counts the exported class.
    chosen = decision["chosen"]["eval"]["metrics"]
    for name in ("recall", "accuracy"):
        assert latest.metrics[name] == pytest.approx(chosen[name])


def test_other_encoder_weights_train_again(start_training, finished, tmp_path):
    other = tiny.write_encoder(tmp_path / "other", seed=1)
    shutil.copy(other / "model.safetensors", finished.recipe.parent / "encoder")
    assert start_training() == {"Trainer"}


def test_deleted_records_of_a_cached_transform_are_written_again(
    start_training, finished, console, monkeypatch, tmp_path
):
    examples = finished.output("Transform", "transformed_examples").uri
    for path in Path(examples).glob("*/*.gz"):
        path.unlink()
    with temporary_files.watched(monkeypatch, tmp_path) as watch:
        assert start_training() == {"Transform", "Trainer"}
    # Nor does this run, which the test stops, leave temporary files.
    assert watch.modes
    assert watch.public == []
    assert watch.lost == []
    assert f"{examples} is not used from the cache: 2 of" in console.file.getvalue()
    written = finished.output("Transform", "transformed_examples").uri
    assert len([*Path(written).glob("*/*.gz")]) == 2


@pytest.mark.nightly
def test_other_rows_are_read_transformed_and_trained_on(start_training, finished):
    with open(finished.recipe.parent / "data" / "train.tsv", "a") as file:
        file.write("900\t1\tThe cat.\tA cat!\n")
    rerun = {*DATA, "Transform", "Trainer"} - {"ImportSchemaGen"}
    assert start_training() == rerun
