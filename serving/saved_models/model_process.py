"""A process for each version of a model.

Loading, warming up and freeing a SavedModel hold the GIL for tenths of a second. In a
process of its own, a version does not stall requests to other versions, and its memory
is free once the process ends. If the process crashes, the server starts a new one.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import pickle
import queue
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from contracts import signals
from contracts.errors import UsageError
from serving.errors import ProcessEndedError, unavailable
from serving.model_facts import ServedModel
from serving.saved_models import models
from serving.saved_models.models import Model
from serving.saved_models.signature_defs import SavedModelFacts
from serving.signatures import Tensors

logger = logging.getLogger(__name__)

_MESSAGE_BYTES = 64 << 10  # of a path
_MAX_DESCRIPTORS = 253  # of a message to a Unix socket
_LOADING_NICENESS = 10


class ModelProcesses:
    """Forks a process for each version from one that has imported TensorFlow.

    Construct it before this process starts a thread or runs an op of TensorFlow: a fork
    has only the thread that forks.

    Args:
      threads: Calls that a version runs at the same time.

    Raises:
      UsageError: A thread runs already.
    """

    def __init__(self, threads: int) -> None:
        others = {thread.name for thread in threading.enumerate()} - {"MainThread"}
        if others:
            raise UsageError(
                "redact",
                f"a module that was imported started the thread {', '.join(others)}",
                advice="start it when the function is first called",
                name="E-redact-not-allowed",
            )
        self._threads = min(threads, _MAX_DESCRIPTORS - 1)
        self._requests, received = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        if not os.fork():
            _run_in_fork(_fork_on_request, self._requests, received)
        received.close()

    def fileno(self) -> int:
        """Returns a descriptor that is readable once no version can be loaded."""
        return self._requests.fileno()

    def load(self, directory: Path, version: int) -> RemoteModel:
        """Loads a SavedModel in a new process, and warms it up.

        Args:
          directory: The SavedModel.
          version: Its version.

        Raises:
          ProcessEndedError: The process ended.
          Exception: What `models.load` raises.
        """
        pipes = [multiprocessing.Pipe() for _ in range(1 + self._threads)]
        with contextlib.ExitStack() as failed:
            for server_end, _ in pipes:
                failed.callback(server_end.close)
            message = pickle.dumps((directory, version))
            descriptors = [process_end.fileno() for _, process_end in pipes]
            socket.send_fds(self._requests, [message], descriptors)
            for _, process_end in pipes:
                process_end.close()
            control, *connections = (server_end for server_end, _ in pipes)
            try:
                result = control.recv()
            except (EOFError, OSError) as error:
                raise ProcessEndedError("the process ended, see the log") from error
            if isinstance(result, Exception):
                raise result
            failed.pop_all()
        return RemoteModel(result, control, connections)


class RemoteModel(SavedModelFacts, ServedModel):
    """A model in a process of its own.

    Args:
      facts: The model's signatures and description.
      control: A connection that is open as long as the process runs.
      connections: Connections for one batch at a time each.
    """

    def __init__(
        self,
        facts: SavedModelFacts,
        control: Connection,
        connections: list[Connection],
    ) -> None:
        super().__init__(**facts.as_dict())
        self._control = control
        self._lock = threading.Lock()
        self._free: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        for connection in connections:
            self._free.put(connection)

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        with self._lock:  # nothing is sent but the end of the file
            return not self._control.closed and not self._control.poll()

    def run(self, signature: str, inputs: Tensors) -> dict[str, np.ndarray]:
        """Runs a signature; see `ServedModel.run`.

        Raises:
          RequestError: TensorFlow fails, or the process has ended.
        """
        connection = self._free.get()
        try:
            connection.send((signature, dict(inputs)))
            result = connection.recv()
        except Exception as error:
            # The next batch must not read the rest of this result.
            connection.close()
            self.close()
            message = f"the process of version {self.version} has ended"
            raise unavailable(message) from error
        finally:
            self._free.put(connection)
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        """Ends the process, even if a batch runs whose clients have left."""
        with self._lock:
            self._control.close()


def _run_in_fork(function: Callable[..., Any], *arguments: Any) -> NoReturn:
    """Ends this process with a function, whose errors must not reach its caller."""
    try:
        function(*arguments)
    except BaseException:
        logger.exception("the process %d ends", os.getpid())
    finally:
        os._exit(1)


def _fork_on_request(requests: socket.socket, received: socket.socket) -> None:
    """Forks a process for each message, until the server ends."""
    requests.close()
    # Most important are the server's sockets: a client would wait for a closed port.
    for name in os.listdir("/dev/fd"):
        if int(name) not in (0, 1, 2, received.fileno()):
            with contextlib.suppress(OSError):  # the one of the list
                os.close(int(name))
    # A terminal sends Ctrl-C and SIGHUP to all processes; the server drains first.
    for number in signals.STOPPING:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _log_ended_processes)
    while True:
        message, descriptors, *_ = socket.recv_fds(
            received, _MESSAGE_BYTES, _MAX_DESCRIPTORS
        )
        if not message:  # the server has ended
            os._exit(0)
        try:
            if not os.fork():
                received.close()
                arguments = pickle.loads(message)
                _run_in_fork(_serve, *arguments, [*map(Connection, descriptors)])
        except OSError:
            logger.exception("a process for a version cannot be started")
        for descriptor in descriptors:
            os.close(descriptor)


def _log_ended_processes(*_: Any) -> None:
    with contextlib.suppress(ChildProcessError):  # there are no more
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            pid, status = ended
            if os.WIFSIGNALED(status):
                name = signal.Signals(os.WTERMSIG(status)).name
                logger.error("the process %d of a version was ended by %s", pid, name)


def _serve(directory: Path, version: int, connections: list[Connection]) -> None:
    """Loads a model and runs batches until the server closes its connections."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # TensorFlow may start compilers
    control, *others = connections
    loaded: Future[Model] = Future()
    threads = [threading.Thread(target=_end_with, args=(control,), daemon=True)]
    for connection in others:
        arguments = (connection, loaded)
        threads.append(
            threading.Thread(target=_run_batches, args=arguments, daemon=True)
        )
    for thread in threads:
        thread.start()
    try:
        for device in tf.config.list_physical_devices("GPU"):
            # The version before has most of it until it is unloaded.
            tf.config.experimental.set_memory_growth(device, True)
        tf.identity(0)  # starts TensorFlow's threads, which keep the priority
        with contextlib.suppress(OSError):  # a container may forbid it
            os.nice(_LOADING_NICENESS)  # of this thread only, on Linux
        model = models.load(directory, version)
        gc.collect()
        gc.freeze()  # later collections would stall requests
        facts = SavedModelFacts(**model.as_dict())
    except Exception as error:  # noqa: BLE001 (the server logs it)
        control.send(_picklable(error))
        return
    loaded.set_result(model)
    control.send(facts)
    threads[0].join()


def _end_with(control: Connection) -> None:
    """Ends this process once the server has ended or closes the connection."""
    control.poll(None)
    os._exit(0)


def _run_batches(connection: Connection, loaded: Future[Model]) -> None:
    """Runs the batches of a connection."""
    model = loaded.result()
    try:
        while True:
            signature, inputs = connection.recv()
            result: dict[str, np.ndarray] | Exception
            try:
                result = model.run(signature, inputs)
            except Exception as error:  # noqa: BLE001 (the server raises it)
                result = _picklable(error)
            connection.send(result)
    except BaseException as error:
        if not isinstance(error, (EOFError, OSError)):
            logger.exception("a batch cannot be received or its result not sent")
        os._exit(1)


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 (any error of any library)
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
