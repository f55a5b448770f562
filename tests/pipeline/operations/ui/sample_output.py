"""An output directory with runs that ended in every way, and one that is running."""

import contextlib
import datetime

from contracts.storage import file_lock
from pipeline.operations.record import (
    ComponentProgress,
    Progress,
    ProgressFile,
    RunRecord,
    TrainingProgress,
)
from tests.pipeline.operations import finished
from tests.pipeline.past_runs import PastRuns
from tests.report import samples

REFUSED, FIRST, SECOND, FAILED, RUNNING = (
    f"20251125-0{hour}0000Z-000000" for hour in range(1, 6)
)
REASON = "accuracy: 0.81 is below the threshold <b>0.85</b>"
LOSSES = [0.7, 0.52, 0.41, 0.36]


def write(root):
    """Writes the finished runs, and returns the paths of the output directory."""
    past = PastRuns(root)
    defaults = {"recipe": "sample", "tfx_run_id": None}
    for seed, run_id in enumerate((FIRST, SECOND)):
        pushed = root / "serving" / "sample" / f"179554894893{seed}"
        run = finished.add_trained(
            past,
            seed=seed,
            texts="The news of day {}",
            state="pushed",
            id=run_id,
            pushed=str(pushed),
            value=0.925,
        )
        report = samples.pushed()
        for curve in (s.losses for s in report.training.seeds):
            curve.y = [value + 0.1 * seed for value in curve.y]
        report.write(str(run.directory))
    past.run("refused", id=REFUSED, value=0.81, reason=REASON, **defaults)
    samples.refused().write(str(past.paths.run(REFUSED)))
    full = "OSError: no space left on device"
    past.run("failed", id=FAILED, reason=full, **defaults)
    log = past.paths.run(FAILED) / "run.log"
    log.write_text("line\n" * 30 + "<b>the end</b>\n")
    return past.paths


@contextlib.contextmanager
def running(paths):
    """A run that lasts as long as the context is open.

    Yields:
      A function that writes how many steps it has trained.
    """
    directory = paths.run(RUNNING)
    directory.mkdir()
    RunRecord(id=RUNNING, recipe="sample", metric="accuracy").write(directory)
    file = ProgressFile(directory)

    def train(loops):
        training = TrainingProgress(
            seed=0,
            step=10 * loops,
            steps=40,
            examples_per_second=61.2,
            seconds_left=21.0,
            best="best accuracy 0.8123 at step 10",
            loss_steps=[10 * (loop + 1) for loop in range(loops)],
            losses=LOSSES[:loops],
        )
        now = datetime.datetime.now().timestamp()
        components = [
            ComponentProgress(name="Transform", state="cached", started=0, seconds=1),
            ComponentProgress(name="Trainer", state="running", started=now - 30),
            ComponentProgress(name="Evaluator", state="waiting"),
        ]
        progress = Progress(components=components, training=training)
        file.write(progress, is_urgent=True)

    with file_lock.hold(paths.lock, f"process 1, run {directory}\n"):
        yield train
