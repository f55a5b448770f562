"""Trainings that are killed, damaged, terminated or finished, and started again."""

import io
import logging
import os
import shutil
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from contracts.storage import files
from modules.training import checkpoints, fine_tuning_trainer, loop, run_fn
from tests.modules.training.conftest import train_in
from tests.modules.training.small_model import SmallTask
from tests.modules.training.summaries import scalars
from tests.nightly import nightly

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("foreground")]

STEPS = 12  # 2 epochs of 48 rows in batches of 8
KILLED_BEFORE = (2, 6, 7, 8, 12)
SETTINGS = {
    "steps_per_loop": 1,
    "checkpoint_interval": 2,
    "evaluation_interval": 3,
    "dropout": 0.1,
}


def train_with_snapshots(directory, steps):
    """Trains to the end; copies the directory as a kill before some steps leaves it."""
    original = fine_tuning_trainer.FineTuningTrainer.train

    def train(self, num_steps):
        step = int(self.global_step.numpy() + num_steps)
        if step in steps:
            shutil.copytree(directory / "whole", directory / f"before-{step}")
        return original(self, num_steps)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fine_tuning_trainer.FineTuningTrainer, "train", train)
        return train_in(directory, "whole", **SETTINGS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted training, and snapshots of its directory on the way."""
    directory = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_fn, "FineTuningTask", SmallTask)
        return directory, train_with_snapshots(directory, KILLED_BEFORE)


@pytest.fixture
def restart(whole, train, tmp_path):
    """Copies the snapshot of a killed training, and starts it again."""

    def restart(step, damage=lambda directory: None):
        shutil.copytree(whole[0] / f"before-{step}", tmp_path / "run")
        damage(tmp_path / "run")
        return train(**SETTINGS)

    return restart


def assert_equal_runs(whole, resumed):
    """Compares the losses of each step and the evaluations of two directories."""
    for split, tag in (("train", "training_loss"), ("validation", "validation_loss")):
        expected = scalars(whole / split, tag)
        losses = scalars(resumed / split, tag)
        assert losses.keys() == expected.keys()
        np.testing.assert_allclose(
            list(losses.values()), list(expected.values()), rtol=1e-5
        )
    records = [files.read_json(str(run / "record.json")) for run in (whole, resumed)]
    steps = [[entry["step"] for entry in r["evaluations"]] for r in records]
    assert steps[0] == steps[1] == [3, 6, 9, 12]


def step_resumed_from(lines):
    (line,) = (line for line in lines() if line.startswith("resumed from step"))
    return int(line.split()[3].rstrip(","))


@pytest.mark.nightly
@pytest.mark.parametrize("step", KILLED_BEFORE)
def test_killed_training_resumes_and_ends_like_an_uninterrupted_one(
    whole, restart, tmp_path, step, lines
):
    directory, expected = whole
    result = restart(step)
    assert step_resumed_from(lines) >= step - 1 - SETTINGS["checkpoint_interval"]
    assert_equal_runs(directory / "whole", tmp_path / "run")
    assert result.best_step == expected.best_step
    assert result.metrics == pytest.approx(expected.metrics, rel=1e-5)


def truncate(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [flip, nightly(truncate), nightly(os.unlink)])
def test_damaged_newest_checkpoint_falls_back_to_the_previous_one(
    restart, damage, lines, tmp_path, whole
):
    directory, expected = whole
    result = restart(8, lambda run: damage(run / "ckpt-6.data-00000-of-00001"))
    assert any("/ckpt-6: it cannot be read" in line for line in lines())
    assert step_resumed_from(lines) == 5
    # Step 6 is trained again, so it is evaluated again.
    evaluated = [line.split()[1] for line in lines() if "evaluation loss" in line]
    assert evaluated == ["6", "9", "12"]
    assert_equal_runs(directory / "whole", tmp_path / "run")
    assert result.best_step == expected.best_step
    assert result.metrics == pytest.approx(expected.metrics, rel=1e-5)


def test_finished_training_returns_its_result_at_once(whole, restart, monkeypatch):
    directory, result = whole
    monkeypatch.setattr(run_fn, "build_trainer", None)  # a call would fail
    shutil.copytree(directory / "whole", directory / "before-finished")
    assert restart("finished") == result


def test_finished_training_leaves_only_the_best_weights(whole):
    directory, result = whole
    names = {path.name for path in (directory / "whole").rglob("*") if path.is_file()}
    weights = {name for name in names if name.startswith("weights")}
    assert {name.partition(".")[0] for name in weights} == {
        f"weights-{result.best_step}"
    }
    assert not any(name.startswith("ckpt") or name == "checkpoint" for name in names)


@pytest.fixture
def newest_step(tmp_path):
    """Returns the step of the newest checkpoint."""
    directory = str(tmp_path / "run")
    return lambda: int(tf.train.latest_checkpoint(directory).rpartition("-")[2])


def send(number):
    os.kill(os.getpid(), number)


ASYNCHRONOUS = {"async_checkpoints": True, "checkpoint_interval": 3}
STOPS = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: SystemExit,
    signal.SIGHUP: SystemExit,
}


def test_closed_terminal_does_not_stop_a_checkpoint_that_another_signal_requested(
    train, newest_step, after_steps, lines, monkeypatch
):
    """The shell and the kernel both send SIGHUP."""
    original, saved = loop.ResumableCheckpoints.save, []

    def save_and_hang_up(self, *arguments, **options):
        path = original(self, *arguments, **options)
        if options.get("checkpoint_number") == 5:
            send(signal.SIGHUP)
            saved.append(5)
        return path

    handlers = [signal.getsignal(other) for other in STOPS]
    after_steps(lambda t: t.global_step.numpy() == 5 and send(signal.SIGTERM))
    monkeypatch.setattr(loop.ResumableCheckpoints, "save", save_and_hang_up)
    with pytest.raises(SystemExit) as stopped:
        train(steps_per_loop=1, **ASYNCHRONOUS)
    assert saved == [5]
    assert stopped.value.code == 128 + signal.SIGTERM
    assert [signal.getsignal(other) for other in STOPS] == handlers
    assert newest_step() == 5
    assert "SIGTERM: checkpoint of step 5 saved" in " ".join(lines())
    assert train(steps_per_loop=1, **ASYNCHRONOUS).steps == STEPS
    assert step_resumed_from(lines) == 5


def test_signal_ends_a_long_loop_after_the_current_step(
    train, newest_step, monkeypatch
):
    original = fine_tuning_trainer.FineTuningTrainer.train

    def train_with_signal(self, num_steps):
        def send_after_a_step():
            while self.global_step.numpy() < 1:
                time.sleep(0.001)
            send(signal.SIGINT)

        threading.Thread(target=send_after_a_step).start()
        return original(self, num_steps)

    monkeypatch.setattr(
        fine_tuning_trainer.FineTuningTrainer, "train", train_with_signal
    )
    with pytest.raises(KeyboardInterrupt):
        train(epochs=1000, evaluation_interval=6000, steps_per_loop=6000)
    assert 1 <= newest_step() < 6000


@pytest.mark.parametrize("is_replaced", [False, True])
def test_signal_while_a_step_is_traced_stops_at_once(
    train, newest_step, monkeypatch, is_replaced
):
    def trace(*_, **__):
        try:
            send(signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt:
            if is_replaced:  # as C++ does in `tf.nest.flatten`
                raise TypeError from None
            raise

    monkeypatch.setattr(SmallTask, "train_step", trace)
    with pytest.raises(KeyboardInterrupt):
        train()
    assert newest_step() == 0


def test_signal_while_a_line_is_written_stops_at_once(
    train, newest_step, monkeypatch, caplog
):
    class Terminal(io.RawIOBase):
        """Sends the signal in the middle of the write of a line."""

        is_sent = False

        def writable(self):
            return True

        def write(self, data):
            if b"training from step" in bytes(data) and not self.is_sent:
                self.is_sent = True  # a write that was interrupted is repeated
                send(signal.SIGINT)
            return len(data)

    class Lines(logging.Handler):  # as `RunProgress`, which hides no error
        def emit(self, record):
            file.write(record.getMessage().encode() + b"\n")
            file.flush()

    file = io.BufferedWriter(Terminal())
    caplog.set_level(logging.INFO, logger="modules")
    monkeypatch.setattr(logging.getLogger("modules"), "handlers", [Lines()])
    with pytest.raises(KeyboardInterrupt):
        train()
    assert newest_step() == 0


def test_signal_in_an_evaluation_stops_at_once_and_loses_no_step(
    train, newest_step, monkeypatch, lines
):
    with monkeypatch.context() as patch:
        patch.setattr(SmallTask, "aggregate_logs", lambda *_: send(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            train(checkpoint_interval=100)
    assert newest_step() == 6
    assert not any("evaluation loss" in line for line in lines())
    assert train(checkpoint_interval=100).steps == STEPS
    assert step_resumed_from(lines) == 6
    evaluated = [line.split()[1] for line in lines() if "evaluation loss" in line]
    assert evaluated == ["6", "12"]


def test_evaluation_runs_while_a_checkpoint_is_written(train, monkeypatch):
    """An evaluation and a checkpoint are due at step 6."""
    is_evaluated, waits = threading.Event(), []
    record_state = checkpoints.ResumableCheckpoints._record_state

    def record_slowly(self):
        if self.latest_checkpoint.endswith("-6") and not waits:
            waits.append(is_evaluated.wait(60))
        record_state(self)

    evaluate = loop.RecordEvaluation.__call__

    def evaluate_and_signal(self, output):
        evaluate(self, output)
        is_evaluated.set()

    monkeypatch.setattr(
        checkpoints.ResumableCheckpoints, "_record_state", record_slowly
    )
    monkeypatch.setattr(loop.RecordEvaluation, "__call__", evaluate_and_signal)
    assert train(**ASYNCHRONOUS).steps == STEPS
    assert waits == [True]


@pytest.mark.parametrize("step", [3, nightly(STEPS)])
def test_checkpoint_that_cannot_be_written_fails_the_training(train, tmp_path, step):
    # TensorFlow cannot replace a directory by the file.
    (tmp_path / "run" / f"ckpt-{step}.index" / "full").mkdir(parents=True)
    with pytest.raises((OSError, tf.errors.OpError)) as failed:
        train(**ASYNCHRONOUS)
    if step == STEPS:
        message = str(failed.value)
        assert f"ckpt-{step} was not written: " in message
        assert "Is a directory" in message
    record = files.read_json(str(tmp_path / "run" / "record.json"))
    assert record is None or record["result"] is None


@pytest.mark.nightly
def test_sigterm_after_the_last_evaluation_exits_with_everything_saved(
    train, newest_step, monkeypatch, lines
):
    original = loop.Progress.restart

    def restart_then_terminate(self, output):  # the last action of an evaluation
        original(self, output)
        if self._global_step.numpy() == STEPS:
            send(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(loop.Progress, "restart", restart_then_terminate)
        with pytest.raises(SystemExit) as stopped:
            train()
    assert stopped.value.code == 128 + signal.SIGTERM
    assert newest_step() == STEPS
    evaluations = [line for line in lines() if "evaluation loss" in line]
    # A call would fail.
    monkeypatch.setattr(fine_tuning_trainer.FineTuningTrainer, "train", None)
    assert train().steps == STEPS
    assert [line for line in lines() if "evaluation loss" in line] == evaluations
