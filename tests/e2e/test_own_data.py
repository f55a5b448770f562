"""A user's spreadsheet: three commands to predictions, without editing a file."""

import csv
import json

import pandas as pd
import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from tests import tiny, warm_probe

pytestmark = pytest.mark.e2e

ANIMALS = ("cat", "dog", "bird", "fish")


def make_rows():
    """Returns rows whose class follows from the animal of the text."""
    return [
        {
            # No name for an input of a SavedModel.
            "Was sie sagten?": '{0} {0}, "{0}" {1};'.format(ANIMALS[n % 4], n),
            # No names of a scope in TensorFlow; AG News has the first.
            "Class Index": "gut" if n % 4 < 2 else "schlecht",
            "id #": 7 * n,
            "Kunde": f"K{n:05}",
            "Gewicht": 1 + n % 2,
        }
        for n in range(800)
    ]


def invoke(*arguments):
    """Runs a command in this process, which has TensorFlow; returns its output."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_three_commands_lead_from_a_file_to_predictions(tmp_path, capfd, monkeypatch):
    warm_probe.install(monkeypatch)
    rows = make_rows()
    frame = pd.DataFrame(rows)
    source = tmp_path / "Kommentare [1]*?.csv"
    # As a spreadsheet in Europe exports it.
    options = {"sep": ";", "encoding": "utf-8-sig", "lineterminator": "\r\n"}
    frame.to_csv(source, index=False, **options)
    encoder = tiny.write_encoder(tmp_path / "encoders [v2]*?" / "tiny")
    folder = tmp_path / "kommentare"

    # With these settings the tiny encoder surely learns it.
    settings = {
        "learning_rate": 0.003,
        "dropout": 0.0,
        "epochs": 10,
        "mixed_precision": "float32",
    }
    chosen = [f"--set=trainer.{name}={value}" for name, value in settings.items()]
    chosen += ["--set=task.weight_column=Gewicht", "--set=trainer.class_weights=auto"]
    chosen += ["--set=task.id_column=id #", "--label", "Class Index"]
    invoke("init", folder, "--data", source, "--encoder", encoder, *chosen)
    # Not by `CliRunner`, which lacks the file descriptors that the command replaces.
    with pytest.raises(SystemExit) as ended:
        main(["run", "--config", str(folder / "recipe.yaml")])
    shown = capfd.readouterr().out
    assert ended.value.code == 0, shown
    assert "class weights in the training loss: schlecht 0.6" in shown
    assert "column Gewicht; metrics are unweighted" in shown
    model = folder / "output" / "serving" / "kommentare"

    new = tmp_path / "new [1].parquet"
    frame.drop(columns=["Class Index", "Gewicht"]).to_parquet(new)
    invoke(
        "predict", "--model", model, "--input", new, "--output", tmp_path / "out.csv"
    )
    with open(tmp_path / "out.csv", newline="") as file:
        predictions = list(csv.DictReader(file))
    assert [row["Kunde"] for row in predictions] == [row["Kunde"] for row in rows]
    assert [row["id #"] for row in predictions] == [str(row["id #"]) for row in rows]
    right = sum(
        row["prediction"] == expected["Class Index"]
        for row, expected in zip(predictions, rows, strict=True)
    )
    assert right >= 0.9 * len(rows)

    (record,) = (folder / "output" / "runs").iterdir()
    card = json.loads((record / "data_card.json").read_text())
    assert card["origin"]["source"] == str(source)
    assert card["origin"]["splitting"]["split_seed"] == 0
    assert card["splits"]["train"]["rows"] == 640
    assert card["profile"]["eval"]["labels"] == {"gut": 80, "schlecht": 80}
    report = json.loads((record / "report.json").read_text())
    assert {"Class Index", "id #"} < {
        column["name"] for column in report["data"]["splits"][0]["columns"]
    }
    texts = {row["id #"]: [row["Was sie sagten?"]] for row in rows}
    assert report["worst_rows"]
    for row in report["worst_rows"]:
        assert row["texts"] == texts[row["id"]]
    compared = invoke(
        *("compare", record.name, next(model.iterdir()), "--output", folder / "output")
    )
    assert "accuracy is equal (160 rows)" in compared
