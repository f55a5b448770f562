"""Worker processes and jobs that are killed or interrupted."""

import concurrent.futures
import logging
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.portability import local_job_service

from pipeline.beam import beam_arguments
from pipeline.beam.worker_processes import WorkerLostError
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY
from pipeline.local.interruption import is_alive
from prediction.batch import BatchOptions, execution, predict_files
from tests import worker_processes
from tests.nightly import nightly
from tests.prediction.batch import in_process
from tests.prediction.batch.conftest import write_rows

# Beam's thread that waits for a worker raises if it is killed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.usefixtures("foreground"),
]
WORKERS = beam_arguments(BeamConfig(runner="multi_processing", workers=2))
ROWS = 600


@pytest.fixture
def source(tmp_path):
    rows = [
        {"n": str(i), "left": "a" * (i % 9 + 1), "right": "aaaaa"} for i in range(ROWS)
    ]
    return str(write_rows(tmp_path / "in.tsv", rows))


def wait_for(find):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if result := find():
            return result
        time.sleep(0.05)
    raise AssertionError("timed out")


def find_open_files(directory):
    """Returns the files that workers are writing."""
    incomplete = directory / "out.incomplete"
    return list(incomplete.glob("beam-temp-predictions*/*predictions*"))


@pytest.mark.nightly
def test_killed_worker_fails_the_prediction_which_leaves_no_file(
    longer, source, tmp_path
):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(
            predict_files,
            *(longer, source, str(tmp_path / "out")),
            BatchOptions(beam_args=WORKERS, batch_rows=1),
        )
        wait_for(lambda: find_open_files(tmp_path))
        worker_processes.find()[0].kill()
        with pytest.raises(WorkerLostError, match=r"beam\.workers"):
            running.result(timeout=300)
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


@pytest.mark.nightly
def test_killed_command_leaves_no_directory_and_no_process(longer, source, tmp_path):
    code = (
        "from prediction.batch import BatchOptions, predict_files\n"
        "if __name__ == '__main__':\n"
        f"    predict_files({longer!r}, {source!r}, {str(tmp_path / 'out')!r},"
        f" BatchOptions(beam_args={WORKERS!r}, batch_rows=1))"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = subprocess.Popen([sys.executable, str(script)], env=environment)
    process = psutil.Process(command.pid)
    # Workers that have not connected yet end after two minutes.
    wait_for(lambda: find_open_files(tmp_path))
    family = process.children(recursive=True)
    command.kill()
    command.wait()
    wait_for(lambda: not any(map(is_alive, family)))
    assert not (tmp_path / "out").exists()
    assert (
        in_process.predict_files(longer, source, str(tmp_path / "out")).predicted
        == ROWS
    )
    assert not (tmp_path / "out.incomplete").exists()


class EndlessJob(local_job_service.BeamJob):
    """A job of a real job service that runs until it is cancelled."""

    def run(self):
        self.set_state(beam_job_api_pb2.JobState.RUNNING)


class UncancellableJob(EndlessJob):
    """A job whose workers do not end."""

    def cancel(self):
        self.set_state(beam_job_api_pb2.JobState.CANCELLING)


class FailingJob(EndlessJob):
    """A job whose service refuses to cancel it."""

    def cancel(self):
        raise RuntimeError("permission denied")


def interrupt(model, source, target, job_type):
    """Returns the job of a prediction that Ctrl-C ends."""
    service = local_job_service.LocalJobServicer(beam_job_type=job_type)
    endpoint = f"localhost:{service.start_grpc_server()}"
    portable = beam_arguments(BeamConfig(runner="portable", job_endpoint=endpoint))
    try:
        with pytest.raises(KeyboardInterrupt):
            predict_files(
                *(model, source, str(target)),
                BatchOptions(beam_args=portable),
                progress=lambda _: signal.raise_signal(signal.SIGINT),
            )
    finally:
        service.stop()
    (job,) = service._jobs.values()
    return job


def test_interrupt_cancels_the_remote_job(longer, source, tmp_path):
    job = interrupt(longer, source, tmp_path / "out", EndlessJob)
    assert job.state == beam_job_api_pb2.JobState.CANCELLED
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


@pytest.mark.parametrize("job_type", [nightly(UncancellableJob), FailingJob])
def test_files_of_a_job_that_cannot_be_cancelled_are_kept(
    longer, source, tmp_path, monkeypatch, caplog, job_type
):
    caplog.set_level(logging.WARNING, "pipeline")
    monkeypatch.setattr(execution, "_CANCEL_SECONDS", 0.2)
    monkeypatch.setattr(execution, "_POLL_SECONDS", 0.05)
    job = interrupt(longer, source, tmp_path / "out", job_type)
    assert f"job {job._job_id} may still run" in caplog.text
    assert f"delete {tmp_path}/out.incomplete" in caplog.text
    assert (tmp_path / "out.incomplete").is_dir()
