"""A job whose worker process is lost fails, and does not wait for it."""

import os
import time
from unittest import mock

import apache_beam as beam
import pytest

from modules import environment
from pipeline.beam import beam_arguments
from pipeline.beam.worker_processes import WorkerLostError
from pipeline.config.beam import BeamConfig
from tests import silent_proxy, worker_processes
from tests.nightly import nightly

# Beam's thread that waits for a worker raises if it is killed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
ROWS = 60


class Record(beam.DoFn):
    """Slowly writes the rows that it processes to a file."""

    def __init__(self, directory):
        self._trace = str(directory / "trace")

    def process(self, row):
        with open(self._trace, "a") as file:
            file.write(f"{row}\n")
        time.sleep(0.1)  # a machine under load takes long to find the worker
        yield str(row)


def fail(row):
    raise ValueError(f"row {row} is bad")


def run(directory, work, workers):
    config = BeamConfig(runner="multi_processing", workers=workers)
    with beam.Pipeline(argv=list(beam_arguments(config))) as pipeline:
        (
            pipeline
            | beam.Create(range(ROWS))
            | beam.Reshuffle()
            | work
            | beam.io.WriteToText(str(directory / "rows"))
        )


@pytest.mark.parametrize("moment", [nightly("while it starts"), "at work"])
def test_killed_worker_fails_the_job_and_nothing_is_written(tmp_path, moment):
    trace = tmp_path / "trace"
    killed = worker_processes.kill_when(
        lambda: moment != "at work" or (trace.exists() and len(trace.read_text()) > 20)
    )
    with pytest.raises(WorkerLostError, match=r"lost, .* out; beam\.workers sets"):
        run(tmp_path, beam.ParDo(Record(tmp_path)), workers=2)
    assert killed
    assert not list(tmp_path.glob("rows*"))
    assert worker_processes.find() == []


def test_error_of_a_row_is_not_a_lost_worker(tmp_path):
    with pytest.raises(RuntimeError, match="is bad") as failed:
        run(tmp_path, beam.Map(fail), workers=1)
    assert not isinstance(failed.value, WorkerLostError)
    assert worker_processes.find() == []


def test_workers_do_not_use_a_proxy(tmp_path):
    with (
        silent_proxy.listening() as (_, variables),
        mock.patch.dict(os.environ, variables, clear=True),
    ):
        environment.set_up()
        run(tmp_path, beam.Map(str), workers=1)
    (written,) = tmp_path.iterdir()
    assert sorted(map(int, written.read_text().splitlines())) == [*range(ROWS)]
