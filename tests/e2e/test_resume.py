"""A training that is killed goes on in the next run of the pipeline."""

import json
import re
import signal
import time

import pytest

from tests import tiny
from tests.e2e import commands

pytestmark = pytest.mark.e2e

STEPS = 360  # 60 epochs of 48 rows in batches of 8
CHECKPOINTS = 20
SETTINGS = {
    "trainer.epochs": 60,
    "trainer.batch_size": 8,
    "trainer.dropout": 0.0,
    "trainer.checkpoint_interval": CHECKPOINTS,
    "trainer.evaluation_interval": 60,
}
SECONDS = 300


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return tiny.write_config(tmp_path_factory.mktemp("resume") / "recipe.yaml")


def start(recipe, **changes):
    settings = [
        f"--set={key}={value}" for key, value in {**SETTINGS, **changes}.items()
    ]
    return commands.start("run", "--config", recipe, *settings)


def newest_step(output):
    # The file that names it is written last: what it does not name is not whole yet.
    for path in output.glob("training/*/seed-0/checkpoint"):
        named = re.search(r'^model_checkpoint_path: ".*ckpt-(\d+)"', path.read_text())
        assert named, path.read_text()
        return int(named[1])
    return 0


def interrupt(process, output, step, number):
    """Sends a signal as soon as there is a checkpoint of a step."""
    deadline = time.monotonic() + SECONDS
    while newest_step(output) < step:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    text, _ = process.communicate(timeout=SECONDS)
    return text


def metrics_of_all(output):
    """What each training that ended recorded, the oldest first."""
    paths = output.glob("artifacts/Trainer/model_run/*/metrics.json")
    return [
        json.loads(path.read_text())
        for path in sorted(paths, key=lambda path: int(path.parent.name))
    ]


def resumed_step(text):
    (line,) = (line for line in text.splitlines() if "resumed from step" in line)
    return int(line.split("resumed from step ")[1].split(",")[0])


def test_training_survives_sigkill_and_sigterm_and_ends_as_one_that_was_left_alone(
    recipe,
):
    output = recipe.parent / "output"
    process = start(recipe)
    interrupt(process, output, 100, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    left = newest_step(output)
    assert left < STEPS

    process = start(recipe)
    text = interrupt(process, output, left + CHECKPOINTS, signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM, text
    assert resumed_step(text) == left
    assert "SIGTERM: saved" in text
    saved = newest_step(output)
    assert left < saved < STEPS

    process = start(recipe)
    text, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, text
    assert resumed_step(text) == saved
    assert f"step {STEPS}/{STEPS}" in text
    assert "pushed " in text.splitlines()[-1]

    # Another training, for it saves at other steps, of the same data and seed.
    process = start(recipe, **{"trainer.checkpoint_interval": STEPS})
    text, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, text
    assert "resumed from step" not in text

    found, expected = metrics_of_all(output)
    assert found["best"]["steps"] == expected["best"]["steps"] == STEPS
    assert found["best"]["best_step"] == expected["best"]["best_step"]
    assert found["best"]["metrics"] == pytest.approx(
        expected["best"]["metrics"], rel=1e-3
    )
