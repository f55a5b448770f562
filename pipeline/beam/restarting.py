"""A Beam runner on processes of this machine that survives the loss of one."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
import threading

import grpc
from apache_beam import Pipeline
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.runner import PipelineResult

from pipeline.beam import unfinished

_LOGGER = logging.getLogger(__name__)
_WATCH_SECONDS = 1.0
_WORKER = "pipeline.beam.worker"
# Global, because Beam creates the workers of a job without the runner.
_worker_lost = threading.Event()


class WorkerLostError(RuntimeError):
    """A worker process ended before the job did."""


class RestartOptions(PipelineOptions):
    """The option of Beam's Java runners for restarts of a job."""

    @classmethod
    def _add_argparse_args(cls, parser) -> None:  # type: ignore[no-untyped-def]
        parser.add_argument("--number_of_execution_retries", type=int, default=0)


class RestartingRunner(fn_runner.FnApiRunner):
    """Restarts a job whose worker process was lost, for example to the OOM killer.

    FnApiRunner fails if a busy worker is lost, and waits forever for one that was idle
    or starting. The whole batch job is restarted: its outputs appear when they are
    complete.
    """

    def run_pipeline(
        self, pipeline: Pipeline, options: PipelineOptions
    ) -> PipelineResult:
        """Runs the job to its end.

        Raises:
          WorkerLostError: Workers were lost in more runs than there are restarts.
        """
        restarts = options.view_as(RestartOptions).number_of_execution_retries
        outputs = unfinished.find_outputs(pipeline)
        for left in range(restarts, -1, -1):
            _worker_lost.clear()
            try:
                return super().run_pipeline(pipeline, options)
            except RuntimeError as error:
                # A closed channel may be noticed before the end of the process.
                if not _worker_lost.wait(_WATCH_SECONDS):
                    raise
                unfinished.delete_unfinished(outputs)
                if not left:
                    raise WorkerLostError(
                        f"a Beam worker process was lost, {restarts + 1} times in a "
                        "row; did it run out of memory? beam.workers sets the "
                        "number of workers, beam.restarts that of restarts"
                    ) from error
            _LOGGER.warning("a Beam worker was lost: restarting the job")
        raise AssertionError("unreachable")


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class _WatchedWorkerHandler(worker_handlers.SubprocessSdkWorkerHandler):
    """A worker process that reports its end to all threads that wait for it."""

    def start_worker(self) -> None:
        self._is_closed = threading.Event()
        self._is_lost = threading.Event()
        # `exec` replaces Beam's shell, so that the worker is a child of this process.
        command = f"exec {shlex.quote(sys.executable)} -m {_WORKER} {os.getpid()}"
        self._worker_command_line = command.encode()
        super().start_worker()
        threading.Thread(target=self._watch, daemon=True).start()

    def close(self) -> None:
        self._is_closed.set()
        # Also ends a worker that has not connected yet, which `close` waits for.
        self.control_conn.push(worker_handlers.BeamFnControlServicer._DONE_MARKER)
        # Closing a broken channel would wait or raise.
        if not self._is_lost.is_set():
            super().close()

    def _watch(self) -> None:
        self.worker_thread.join()
        if self._is_closed.is_set():
            return
        self._is_lost.set()
        _worker_lost.set()
        lost = WorkerLostError(f"{self.worker_id} ended before the job did")
        threading.Thread(target=self._close_data, daemon=True).start()
        # Repeated, because Beam may still send an instruction to it.
        while not self._is_closed.wait(_WATCH_SECONDS):
            self.control_conn.abort(lost)

    def _close_data(self) -> None:
        """Ends the threads that read its data."""
        with contextlib.suppress(grpc.RpcError):  # they were notified of the break
            self.data_conn.close()
