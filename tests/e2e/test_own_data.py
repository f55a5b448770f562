"""A user's spreadsheet: three commands to predictions, without editing a file.

The second command, which trains, is interrupted, killed, and repeated to its end.
"""

import csv
import json
import math
import os
import re
import shlex
import signal
import sys
import time

import pandas as pd
import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import load_config
from pipeline.local.run import hold_output
from report.content import Report
from tests import tiny, warm_probe
from tests.e2e import warm_command
from tests.e2e.check_results import find, read_table
from tests.e2e.finished_run.components import EVERYTHING
from tests.nightly import nightly

pytestmark = pytest.mark.e2e

ANIMALS = ("cat", "dog", "bird", "fish")
# With these settings the tiny encoder surely learns it.
SETTINGS = {
    "learning_rate": 0.003,
    "dropout": 0.0,
    "epochs": 10,
    "mixed_precision": "float32",
    "class_weights": "auto",
    "checkpoint_interval": 10,
}
BATCH = 32
SECONDS = 300
SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


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
            "Land": ("at", "de", "")[n % 3],
        }
        for n in range(800)
    ]


def invoke(*arguments):
    """Runs a command in this process, which has TensorFlow; returns its output."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def newest_step(output):
    """Returns the step of the newest checkpoint, or 0 before the first one."""
    # The file that names a checkpoint is written after it.
    for path in output.glob("training/*/seed-0/checkpoint"):
        named = re.search(r'^model_checkpoint_path: ".*ckpt-(\d+)"', path.read_text())
        assert named, path.read_text()
        return int(named[1])
    return 0


def interrupt(command, log, output, step, number):
    """Runs a command, and sends a signal as soon as there is a checkpoint of a step.

    Returns the exit status, and what the command printed.
    """
    process = warm_command.start(command, log, REPOSITORY)
    deadline = time.monotonic() + SECONDS
    while newest_step(output) < step:
        assert process.is_alive(), log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, number)
    process.join(SECONDS)
    return process.exitcode, log.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, nightly(signal.SIGTERM)])
def test_three_commands_lead_from_a_file_to_predictions_although_the_run_is_killed(
    tmp_path, capfd, monkeypatch, number
):
    warm_probe.install(monkeypatch)
    rows = make_rows()
    frame = pd.DataFrame(rows)
    source = tmp_path / "Kommentare [1]*?.csv"
    # As a spreadsheet in Europe exports it.
    options = {"sep": ";", "encoding": "utf-8-sig", "lineterminator": "\r\n"}
    frame.to_csv(source, index=False, **options)
    encoder = tiny.write_encoder(tmp_path / "encoders [v2]*?" / "tiny")
    folder = tmp_path / "kommentare"
    chosen = [f"--set=trainer.{name}={value}" for name, value in SETTINGS.items()]
    chosen += ["--set=task.weight_column=Gewicht", "--set=task.id_column=id #"]
    chosen += ["--label", "Class Index", "--set=data.slice_columns=[Land]"]
    chosen += ["--set=checks.slices.thresholds={Land: {accuracy: 0.7}}"]
    # The labels depend on words, so a linear model is right in all rows.
    chosen += ["--set=checks.linear_model.action=warn"]
    invoke("init", folder, "--data", source, "--encoder", encoder, *chosen)

    output, log = folder / "output", tmp_path / "log"
    command = ["run", "--config", str(folder / "recipe.yaml")]
    status, text = interrupt(command, log, output, 30, number)
    assert status == 128 + number, text
    with open(folder / "data" / "train.csv", newline="") as file:
        train = list(csv.DictReader(file))
    steps = SETTINGS["epochs"] * math.ceil(len(train) / BATCH)
    saved = newest_step(output)
    assert 30 <= saved < steps
    assert f"{number.name}: checkpoint" in text
    *_, reason, kept, advice, resume = text.splitlines()
    assert reason == f"stopped by {SIGNALS[number]} in Trainer"
    assert kept.startswith("kept: the outputs of ")
    assert kept.endswith(f" components and the training up to step {saved}")
    assert advice == "to resume, run:"
    assert shlex.split(resume) == [sys.executable, "-m", "pipeline", *command]
    with hold_output(OutputPaths.of(load_config(folder / "recipe.yaml")), "run this"):
        pass  # the lock is free

    # The next run is killed, after it has resumed.
    step = saved + SETTINGS["checkpoint_interval"]
    status, _ = interrupt(command, log, output, step, signal.SIGKILL)
    assert status == -signal.SIGKILL
    left = newest_step(output)
    assert saved < left < steps

    capfd.readouterr()  # TensorFlow's notices, if the fork server imported it here
    # Not by `CliRunner`, which lacks the file descriptors that the command replaces.
    with pytest.raises(SystemExit) as ended:
        main([*command, "-v"])
    shown, errors = capfd.readouterr()
    assert (ended.value.code, errors) == (0, ""), shown
    assert set(re.findall(r"resumed from step (\d+)", shown)) == {str(left)}
    assert f"step {steps}/{steps}" in shown
    for component in EVERYTHING:
        assert f"✓ {component}" in shown
    assert "class weights in the training loss: schlecht 0.6" in shown
    assert "column Gewicht; metrics are unweighted" in shown
    model = output / "serving" / "kommentare"
    (pushed,) = model.iterdir()
    assert shown.splitlines()[-1] == f"pushed {pushed}"
    assert (pushed / "saved_model.pb").is_file()
    assert len(list((output / "training").iterdir())) == 1
    first, _, record = sorted((output / "runs").iterdir())
    assert load_config(first / "config.yaml") == load_config(record / "config.yaml")
    assert (record / "run.log").stat().st_size > 0

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

    card = json.loads((record / "data_card.json").read_text())
    assert card["origin"]["source"] == str(source)
    assert card["origin"]["splitting"]["split_seed"] == 0
    assert card["splits"]["train"]["rows"] == len(train)
    tested = card["splits"]["test"]["rows"]
    assert 120 <= tested <= 200
    assert sum(card["profile"]["test"]["labels"].values()) == tested
    report = json.loads((record / "report.json").read_text())
    assert {"Class Index", "id #"} < {
        column["name"] for column in report["splits"][0]["columns"]
    }
    texts = {row["id #"]: [row["Was sie sagten?"]] for row in rows}
    slices = find(Report.read(str(record)).checks, "slices")
    lands = [row for row in read_table(slices) if row["slice"].startswith("Land")]
    expected = ["Land (missing)", "Land at", "Land de"]
    assert [row["slice"].rpartition(" (")[0] for row in lands] == expected
    assert [row["threshold"] for row in lands] == [0.7] * 3
    assert report["worst_rows"]
    for row in report["worst_rows"]:
        assert row["texts"] == texts[row["id"]]
    compared = invoke("compare", record.name, pushed, "--output", output)
    assert f"accuracy is equal ({tested} rows)" in compared
