"""Texts of 2,000 tokens through a whole run, from a file to `predict`."""

import csv
import json

import pytest

from bert_runtime import Model
from tests import long_texts, tiny
from tests.e2e import commands

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

CLASSES = ["bad", "good"]


def rows_of(seed):
    """Returns rows of a file."""
    return [
        {"idx": index, "label": CLASSES[label], "sentence": text}
        for index, (text, label) in enumerate(long_texts.rows(48, seed))
    ]


def test_run_with_windows_pushes_a_model_that_is_right(tmp_path):
    recipe = tiny.write_config(
        tmp_path / "recipe.yaml",
        task={"text_columns": ["sentence"], "classes": CLASSES},
        preprocessing={
            "max_seq_length": 2002,
            "long_text": {"window": 64, "stride": 62, "pool": "max"},
        },
        trainer={
            "epochs": 10,
            "batch_size": 8,
            "learning_rate": 0.003,
            "dropout": 0.0,
            "mixed_precision": "float32",
        },
        evaluator={"thresholds": {"accuracy": 0.99}},
        data={"source": "long"},
        encoder={"source": "learner"},
        data_gate={"max_word_f1": 1.0, "max_interval": 0.5},
    )
    long_texts.write_encoder(tmp_path / "learner")
    (tmp_path / "long").mkdir()
    for seed, split in enumerate(tiny.SPLITS[:2]):
        with open(tmp_path / "long" / f"{split}.jsonl", "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows_of(seed))
    run = commands.run("run", "--config", recipe)
    assert run.returncode == 0, run.stdout + run.stderr
    pushed = tmp_path / "output" / "serving" / "tiny"
    (version,) = (path for path in pushed.iterdir() if path.name.isdecimal())
    table = tmp_path / "predictions.csv"
    predict = commands.run(
        *("predict", "--model", pushed, "--output", table),
        *("--input", tmp_path / "long" / "eval.jsonl"),
    )
    assert predict.returncode == 0, predict.stderr
    with open(table, newline="") as file:
        predicted = [row["prediction"] for row in csv.DictReader(file)]
    assert predicted == [row["label"] for row in rows_of(seed=1)]
    card = (version / "README.md").read_text()
    assert "cut to 2002 tokens. The model reads windows of 64 tokens, one ev" in card
    (report,) = tmp_path.glob("output/runs/*/report.json")
    profile = json.loads(report.read_text())["data"]["profile"]
    assert profile["train"]["lengths"]["cut_rows"] == 0
    for target, status in (("onnx", 0), ("huggingface", 2)):
        folder = tmp_path / target
        export = commands.run(
            *("export", "--format", target, "--model", pushed, "--output", folder)
        )
        assert export.returncode == status, export.stderr
    assert "reads texts in windows (preprocessing.long_text" in export.stderr
    texts = [row["sentence"] for row in rows_of(seed=1)]
    read = [row["prediction"] for row in Model(tmp_path / "onnx").predict(texts)]
    assert read == predicted
