"""The Python API on a finished run."""

import json
import os
import sys

import pandas as pd
import pytest

import pipeline
from pipeline import Recipe
from tests.refusals import refused
from tests.tiny import pairs

pytestmark = pytest.mark.e2e


def test_run_again_predict_and_serve(finished, capfd, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["notebook", "-f", "kernel.json"])
    recipe = Recipe(finished.recipe, finished.settings)
    run = pipeline.run(recipe)
    assert sys.argv == ["notebook", "-f", "kernel.json"]
    os.write(1, b"to the descriptor")
    print("to the stream")
    printed = capfd.readouterr()
    assert "to the descriptor" in printed.out
    assert "to the stream" in printed.out
    assert "Trainer" in printed.out
    assert "Traceback" not in printed.err
    # The model is that of the first run, from the cache.
    first = pipeline.list_runs(recipe)[-1]
    assert run.id == pipeline.load_run("latest", recipe).id != first.id
    assert (run.state, run.pushed) == (first.state, first.pushed)
    assert run.metrics == first.metrics
    assert pipeline.compare(first, run).changed == []
    assert run.verdict.blessed
    assert run.settings.name == recipe.settings.name
    assert run.data.splits.keys() == {"train", "eval"}
    assert pipeline.list_versions(recipe)[0].directory == run.pushed
    assert pipeline.lineage(run).component == "AtomicPusher"

    rows = [texts for _, *texts in pairs(5)]
    names = recipe.settings.task.text_columns
    frame = pd.DataFrame(rows, columns=names, index=list("abcda"))
    frame["prediction"] = pd.Categorical(["old"] * 5)
    predicted = pipeline.predict(run, frame)
    assert list(predicted.index) == list("abcda")
    assert predicted["input_prediction"].equals(frame["prediction"])
    assert set(predicted["prediction"]) <= set(recipe.settings.task.classes)
    by_list = pipeline.predict(run.pushed, rows, min_probability=0.5)
    assert list(by_list["probability"]) == list(predicted["probability"])
    with refused("E-text-refused", setting="texts"):
        pipeline.predict(run, ["a single text"])

    with pipeline.serve(run) as server:
        instances = [dict(zip(names, texts, strict=True)) for texts in rows]
        served = server.predict(instances)
    assert [row["class"] for row in served] == list(predicted["prediction"])
    assert json.dumps(served)


@pytest.mark.nightly
def test_five_lines_from_a_frame_to_predictions(finished, tmp_path):
    labels, first, second = zip(*pairs(240), strict=True)
    frame = pd.DataFrame({"a": first, "b": second, "same": labels})
    settings = {"data_gate.max_interval": 0.9, "evaluator.thresholds": {"accuracy": 0}}
    settings["checks.linear_model.action"] = "ignore"
    encoder = finished.recipe.parent / "encoder"
    columns = {"text": ("a", "b"), "label": "same"}
    recipe = Recipe.from_data(
        frame, tmp_path / "own", **columns, encoder=encoder, settings=settings
    )
    run = pipeline.run(recipe)
    predicted = pipeline.predict(run, frame)
    assert set(predicted["prediction"]) <= {"0", "1"}
    assert len(predicted) == 240
