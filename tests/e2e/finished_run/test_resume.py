"""A run that is interrupted in its training resumes in the next run."""

import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest

from pipeline.config.paths import REPOSITORY
from pipeline.config.recipe import load_config
from pipeline.local.run import hold_output
from tests.e2e import warm_command
from tests.e2e.finished_run.components import EVERYTHING
from tests.nightly import nightly

pytestmark = pytest.mark.e2e

STEPS = 180  # 30 epochs of 48 rows in batches of 8
CHECKPOINTS = 10
SETTINGS = {
    "trainer.epochs": 30,
    "trainer.batch_size": 8,
    "trainer.dropout": 0.0,
    "trainer.checkpoint_interval": CHECKPOINTS,
    "trainer.evaluation_interval": 60,
}
SECONDS = 300


ARGUMENTS = [f"--set={key}={value}" for key, value in SETTINGS.items()]


def newest_step(output):
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


def resumed_step(text):
    (step,) = set(re.findall(r"resumed from step (\d+)", text))
    return int(step)


@pytest.mark.parametrize("number", [signal.SIGINT, nightly(signal.SIGTERM)])
def test_interrupted_and_killed_runs_resume_and_the_last_one_pushes(
    run_command, finished, tmp_path, capfd, number
):
    output, log = finished.paths.root, tmp_path / "log"
    command = ["run", "--config", str(finished.recipe), *ARGUMENTS]
    status, text = interrupt(command, log, output, 30, number)
    assert status == 128 + number, text
    saved = newest_step(output)
    assert 30 <= saved < STEPS
    assert f"{number.name}: checkpoint" in text
    *_, reason, kept, advice, resume = text.splitlines()
    name = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}[number]
    assert reason == f"stopped by {name} in Trainer"
    assert kept.startswith("kept: the outputs of ")
    assert kept.endswith(f" components and the training up to step {saved}")
    assert advice == "to resume, run:"
    assert shlex.split(resume) == [sys.executable, "-m", "pipeline", *command]
    with hold_output(finished.paths, "run this"):
        pass  # the lock is free

    # The next run is killed, after it has resumed.
    checkpoint = saved + CHECKPOINTS
    status, _ = interrupt(command, log, output, checkpoint, signal.SIGKILL)
    assert status == -signal.SIGKILL
    left = newest_step(output)
    assert saved < left < STEPS

    capfd.readouterr()  # TensorFlow's notices, if the fork server imported it here
    status, text, errors = run_command("-v", *ARGUMENTS)
    assert (status, errors) == (0, ""), text
    assert resumed_step(text) == left
    assert f"step {STEPS}/{STEPS}" in text
    for component in EVERYTHING:
        assert f"✓ {component}" in text
    pushed = Path(text.splitlines()[-1].removeprefix("pushed "))
    assert (pushed / "saved_model.pb").is_file()
    assert pushed != Path(finished.report.pushed)
    assert len(list(finished.paths.training.iterdir())) == 2
    _, first, _, last = sorted((output / "runs").iterdir())
    assert load_config(first / "config.yaml") == load_config(last / "config.yaml")
    assert (last / "run.log").stat().st_size > 0
