"""A job survives the loss of a worker process."""

import time

import apache_beam as beam
import pytest

from pipeline.beam import beam_arguments
from pipeline.beam.restarting import WorkerLostError
from pipeline.config.beam import BeamConfig
from tests import worker_processes

# Beam's thread that waits for a worker raises if it is killed.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]
ROWS = 60
_SECONDS = 60


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


def run(directory, work, workers=1, **settings):
    config = BeamConfig(runner="multi_processing", workers=workers, **settings)
    with beam.Pipeline(argv=list(beam_arguments(config))) as pipeline:
        (
            pipeline
            | beam.Create(range(ROWS))
            | beam.Reshuffle()
            | work
            | beam.io.WriteToText(str(directory / "rows"))
        )
    text = "".join(path.read_text() for path in directory.glob("rows*"))
    return sorted(map(int, text.split()))


def test_worker_killed_at_work_loses_no_row(tmp_path):
    trace = tmp_path / "trace"
    killed = worker_processes.kill_when(
        lambda: trace.exists() and len(trace.read_text()) > 20
    )
    rows = run(tmp_path, beam.ParDo(Record(tmp_path)), workers=2)
    assert killed
    assert rows == list(range(ROWS))
    assert len(trace.read_text().split()) > ROWS  # some were processed again
    # Readers of the rows take all files of the directory.
    assert list(tmp_path.glob("beam-temp-*")) == []


def test_worker_killed_before_its_work_loses_no_row(tmp_path):
    killed = worker_processes.kill_when(lambda: True)
    assert run(tmp_path, beam.Map(str), workers=2) == list(range(ROWS))
    assert killed


def test_loss_of_too_many_workers_is_an_error_and_nothing_is_written(tmp_path):
    killed = worker_processes.kill_when(lambda: True)
    with pytest.raises(WorkerLostError, match=r"lost, 1 times .* beam\.restarts"):
        run(tmp_path, beam.Map(str), restarts=0)
    assert killed
    assert not list(tmp_path.glob("rows*"))


def test_error_of_a_row_does_not_restart_the_job(tmp_path):
    started = time.monotonic()
    with pytest.raises(RuntimeError, match="is bad") as failed:
        run(tmp_path, beam.Map(fail))
    assert not isinstance(failed.value, WorkerLostError)
    assert time.monotonic() - started < _SECONDS
    assert worker_processes.find() == []
