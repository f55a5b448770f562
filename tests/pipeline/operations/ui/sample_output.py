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
from tests.pipeline.past_runs import ID_FORMAT
from tests.report import samples

REFUSED, FIRST, SECOND, FAILED, RUNNING = (
    f"20251125-0{hour}0000Z-000000" for hour in range(1, 6)
)
REASON = "accuracy: 0.81 is below the threshold <b>0.85</b>"
LOSSES = [0.7, 0.52, 0.41, 0.36]


def write(root):
    """Writes the finished runs, and returns the paths of the output directory."""
    root.mkdir()
    output = finished.Output(root)
    paths = output.paths
    for seed, run_id in enumerate((FIRST, SECOND)):
        pushed = root / "serving" / "sample" / f"179554894893{seed}"
        output.add(run_id, seed=seed, texts="The news of day {}", pushed=pushed)
        write_record(paths, run_id, "pushed", value=0.925, pushed=str(pushed))
        report = samples.pushed()
        for curve in (s.losses for s in report.training.seeds):
            curve.y = [value + 0.1 * seed for value in curve.y]
        report.write(str(paths.run(run_id)))
    write_record(paths, REFUSED, "refused", value=0.81, reason=REASON)
    samples.refused().write(str(paths.run(REFUSED)))
    write_record(paths, FAILED, "failed", reason="OSError: no space left on device")
    (paths.run(FAILED) / "run.log").write_text("line\n" * 30 + "<b>the end</b>\n")
    return paths


def write_record(paths, run_id, state, **fields):
    """Writes `run.json`; a run that ended took two minutes."""
    started = datetime.datetime.strptime(run_id, ID_FORMAT)
    ended = (started + datetime.timedelta(minutes=2)).astimezone()
    record = RunRecord(
        id=run_id,
        recipe="sample",
        metric="accuracy",
        state=state,
        ended=None if state == "running" else ended,
        tfx_run_id=run_id if state == "pushed" else None,
    ).model_copy(update=fields)
    paths.run(run_id).mkdir(parents=True, exist_ok=True)
    record.write(paths.run(run_id))


@contextlib.contextmanager
def running(paths):
    """A run that lasts as long as the context is open.

    Yields:
      A function that writes how many steps it has trained.
    """
    directory = paths.run(RUNNING)
    write_record(paths, RUNNING, "running")
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
