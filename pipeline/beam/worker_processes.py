"""A Beam runner on processes of this machine that fails if a process is lost.

FnApiRunner waits forever for a worker that was killed while it started or was idle, for
example by the OOM killer.
"""

from __future__ import annotations

import threading

from apache_beam import Pipeline
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.runner import PipelineResult

_SECONDS = 1.0
# Global, because Beam creates the workers without a reference to the runner.
_worker_lost = threading.Event()


class WorkerLostError(RuntimeError):
    """A worker process ended before the job did."""


class ProcessRunner(fn_runner.FnApiRunner):
    """FnApiRunner with watched workers: importing this module registers them."""

    def run_pipeline(
        self, pipeline: Pipeline, options: PipelineOptions
    ) -> PipelineResult:
        """Runs the job to its end.

        Raises:
          WorkerLostError: A worker process ended before the job did.
        """
        _worker_lost.clear()
        try:
            return super().run_pipeline(pipeline, options)
        except RuntimeError as error:
            # The error of the broken channel may come before the end of the process.
            if not _worker_lost.wait(_SECONDS):
                raise
            raise WorkerLostError(
                "a Beam worker process was lost, perhaps because memory ran out; "
                "beam.workers sets the number of workers"
            ) from error


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class _WatchedWorkerHandler(worker_handlers.SubprocessSdkWorkerHandler):
    def start_worker(self) -> None:
        self._is_closed = threading.Event()
        super().start_worker()
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        self._is_closed.set()
        # Ends a worker that connects later, too: `super().close()` waits for it.
        self.control_conn.push(worker_handlers.BeamFnControlServicer._DONE_MARKER)
        # Closing the data channel of a lost worker may wait or raise (Beam 2.77).
        if self.worker_thread.is_alive():
            super().close()

    def _watch(self) -> None:
        self.worker_thread.join()
        if self._is_closed.is_set():
            return
        _worker_lost.set()
        # Ends the threads that read its data. In a thread, because it may wait.
        threading.Thread(target=self.data_conn.close, daemon=True).start()
        # Repeated, because Beam may still send an instruction to it.
        while not self._is_closed.wait(_SECONDS):
            self.control_conn.abort(WorkerLostError(f"{self.worker_id} was lost"))
