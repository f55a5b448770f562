"""The components of a run as a live list, or as plain lines."""

import io
import logging
import math
import re
import sys

import pytest

from contracts.run_states import MARKS
from pipeline.console import Console
from pipeline.local.progress import RunProgress
from pipeline.operations.record import (
    Progress,
    ProgressFile,
    TrainingProgress,
    read_progress,
)

ABSL = logging.getLogger("absl")
TRAINING = logging.getLogger("modules.training.loop")
GATE = logging.getLogger("components.data_gate.component")
FILES = logging.getLogger("pipeline.operations.cleaning")
CARD = logging.getLogger("report.model_card")
WARNING = "eval: 3 of 40 rows [of train] are repeated"
LOOP = {"seed": 0, "steps": 40, "loss": 0.5, "examples_per_second": 61.23}
BEST = {"metric": "accuracy", "best": 0.81234, "best_step": 10}


def start(name):
    ABSL.info("Component %s is running.", name)


def finish(name, is_cached=False):
    if is_cached:
        ABSL.info("A cached execution %d is used.", 3)
    ABSL.info("Component %s is finished.", name)


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    """Every component takes 0.0 s, on a busy machine, too."""
    monkeypatch.setattr("pipeline.local.progress.time.monotonic", lambda: 100.0)


@pytest.fixture
def terminal():
    """A terminal of 80 columns; the text that it shows is in its file."""
    return Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)


def screen(progress):
    """Returns the lines of the list as they are now."""
    console = Console(file=io.StringIO(), width=80)
    console.print(progress)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_plain_lines_show_only_components_steps_and_warnings(console):
    progress = RunProgress(console)
    with progress.shown():
        progress.expect(["StatisticsGen", "Trainer", "Pusher"])
        start("StatisticsGen")
        finish("StatisticsGen", is_cached=True)
        start("Trainer")
        TRAINING.info("step %d/%d", 1, 2, extra={"training": {"step": 1, **LOOP}})
        ABSL.info("something else")
        GATE.info("rows read")
        GATE.warning(WARNING)
        CARD.warning("the head is not YAML")
        FILES.warning("examples/1 is not used from the cache")
        finish("Trainer")
    start("Later")
    assert console.file.getvalue().splitlines() == [
        "✓ StatisticsGen 0.0 s cached",
        "  step 1/2",
        f"  warning: {WARNING}",
        "  the head is not YAML",
        "  examples/1 is not used from the cache",
        "✓ Trainer 0.0 s",
    ]


def test_verbose_shows_the_log_of_tfx_too(console):
    with RunProgress(console, verbose=True).shown():
        ABSL.info("something [else]")
        TRAINING.info("step")
    assert console.file.getvalue().splitlines() == [
        "INFO absl something [else]",
        "  step",
    ]


def test_terminal_lists_every_component_with_its_state_and_the_training(terminal):
    progress = RunProgress(terminal)
    with progress.shown():
        progress.expect(["StatisticsGen", "Transform", "Trainer", "Pusher"])
        for name, is_cached in (("StatisticsGen", True), ("Transform", False)):
            start(name)
            finish(name, is_cached)
        start("Trainer")
        TRAINING.info("the device is " + 20 * "long ")
        *done, trainer, pusher = screen(progress)
        assert done == [
            "✓ StatisticsGen       0.0 s cached",
            "✓ Transform           0.0 s",
        ]
        assert trainer.endswith("…")
        assert pusher == "· Pusher"
        for step in (10, 20):
            TRAINING.info("step", extra={"training": {"step": step, **LOOP}})
            TRAINING.info("evaluation", extra={"training": BEST})
        lines = screen(progress)
        assert "seed 0" in lines[4]
        assert "20/40  50% 0:00:0" in lines[4]
        assert lines[5] == (
            "  loss 0.500, 61.2 examples/s, best accuracy 0.8123 at step 10"
        )
        assert max(map(len, lines)) < 80
        finish("Trainer")
        lines = screen(progress)
    assert lines[2] == "✓ Trainer             0.0 s best accuracy 0.8123 at step 10"


def test_warnings_on_a_terminal_break_between_words(terminal):
    word = "12345678901234567"
    with RunProgress(terminal).shown():
        GATE.warning(" ".join([word] * 8))
    shown = [line for line in terminal.file.getvalue().splitlines() if word in line]
    assert len(shown) == 3
    assert re.findall("[0-9]{9,}", " ".join(shown)) == [word] * 8


def test_failed_component_is_marked(console):
    progress = RunProgress(console)

    def fail():
        with progress.shown():
            start("Transform")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert console.file.getvalue() == "✕ Transform 0.0 s failed\n"


def test_stopped_run_names_what_is_kept_and_the_command_to_resume(console, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "pipeline", "run", "a b"])
    progress = RunProgress(console)

    def interrupt():
        with progress.shown():
            progress.expect(["Transform", "Trainer"])
            start("Transform")
            finish("Transform")
            start("Trainer")
            TRAINING.warning("saved", extra={"training": {"kept_step": 40}})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    progress.explain_stop("Ctrl-C")
    assert console.file.getvalue().splitlines()[-5:] == [
        f"{MARKS['interrupted'].symbol} Trainer 0.0 s interrupted",
        "stopped by Ctrl-C in Trainer",
        "kept: the outputs of 1 component and the training up to step 40",
        "to resume, run:",
        "  python -m pipeline run 'a b'",
    ]


def test_other_processes_read_the_progress_of_the_run(console, tmp_path):
    progress = RunProgress(console, record=tmp_path)
    with progress.shown():
        progress.expect(["StatisticsGen", "Trainer", "Pusher"])
        start("StatisticsGen")
        finish("StatisticsGen", is_cached=True)
        start("Trainer")
        states = [c.state for c in read_progress(tmp_path).components]
        assert states == ["cached", "running", "waiting"]
        TRAINING.info("step %d/%d", 10, 40, extra={"training": {"step": 10, **LOOP}})
        TRAINING.info("evaluated", extra={"training": BEST})
        finish("Trainer")
    written = read_progress(tmp_path)
    assert [c.state for c in written.components] == ["cached", "done", "waiting"]
    assert written.training.step == 10
    assert written.training.losses == [0.5]
    assert written.training.best == "best accuracy 0.8123 at step 10"


def test_progress_with_a_loss_that_is_nan_is_read_back(tmp_path):
    training = TrainingProgress(
        seed=0,
        step=2,
        steps=4,
        examples_per_second=1.0,
        loss_steps=[1, 2],
        losses=[0.5, math.nan],
    )
    written = Progress(training=training)
    ProgressFile(tmp_path).write(written)
    read = read_progress(tmp_path).training
    assert read is not None
    assert read.losses == pytest.approx([0.5, math.nan], nan_ok=True)
