"""Each version of a model is in a process of its own, which ends with its use."""

import contextlib
import os
import pickle
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import psutil
import pytest

from serving.errors import RequestError
from tests.serving import saved_models
from tests.serving.conftest import PATIENCE_SECONDS, wait_until
from tests.serving.processes import started

pytestmark = pytest.mark.slow

AGAIN = "try again later"


@pytest.fixture
def counter(tmp_path):
    """A directory with version 1 of the counter."""
    root = tmp_path / "counter"
    saved_models.save_counter(root / "1", 1)
    return root


def model_processes(server):
    """Returns the processes that have a model, the oldest first."""
    (zygote,) = psutil.Process(server.process.pid).children()
    return sorted(zygote.children(), key=lambda process: process.create_time())


@contextlib.contextmanager
def request_in_flight(server, go):
    """Sends a request that waits for a file; yields the future of its response."""
    with ThreadPoolExecutor(1) as clients:
        try:
            waiting = clients.submit(server.predict, saved_models.WAITING)
            wait_until(lambda: server.metric("serving_requests_in_flight") == 1)
            yield waiting
        finally:
            go.touch()


def test_model_whose_process_was_killed_is_loaded_again(counter):
    with started(counter, "--no-grpc") as server:
        assert server.predict() == (200, 1)
        (first,) = model_processes(server)
        first.kill()
        results = []

        def predicts():
            results.append(server.predict())
            return results[-1][0] == 200

        wait_until(predicts)
        assert {status for status, _ in results} <= {200, 503}
        assert "the process of counter version 1 has ended" in server.read()
        assert "was ended by SIGKILL" in server.read()
        (second,) = model_processes(server)
        assert second.pid != first.pid


def test_request_whose_process_is_killed_fails_and_no_older_version_serves(
    counter, tmp_path
):
    saved_models.save_counter(counter / "2", 2)
    with (
        started(counter, "--no-grpc") as server,
        request_in_flight(server, tmp_path / "go") as waiting,
    ):
        (process,) = model_processes(server)
        process.kill()
        assert waiting.result() == (503, "the process of version 2 has ended; " + AGAIN)
        results = [server.predict() for _ in range(4)]  # more than --inference-threads
        wait_until(lambda: server.predict() == (200, 2))
        assert {result for result in results if result[0] == 200} <= {(200, 2)}
        assert "loaded counter version 1" not in server.read()


def test_version_whose_process_is_killed_while_it_loads_is_loaded_later(
    counter, tmp_path
):
    hidden = saved_models.save_counter(tmp_path / "2", 2)
    with started(counter, "--no-grpc") as server:
        shutil.move(hidden, counter / "2")
        wait_until(lambda: len(model_processes(server)) == 2)
        model_processes(server)[-1].kill()
        wait_until(lambda: "ProcessEndedError" in server.read())
        wait_until(lambda: server.predict() == (200, 2))


def test_server_ends_if_it_can_load_no_more_versions(counter):
    with started(counter, "--no-grpc") as server:
        (starter,) = psutil.Process(server.process.pid).children()
        starter.kill()
        assert server.process.wait(PATIENCE_SECONDS) == 1
        assert "no version can be loaded any more" in server.read()


def test_requests_in_flight_are_finished_if_the_whole_group_is_stopped(
    counter, tmp_path
):
    with (
        started(counter, "--no-grpc") as server,
        request_in_flight(server, tmp_path / "go") as waiting,
    ):
        for process in psutil.Process(server.process.pid).children(recursive=True):
            process.terminate()
        server.process.terminate()
        wait_until(lambda: "draining: 1 requests" in server.read())
        (tmp_path / "go").touch()
        assert waiting.result() == (200, 1)
        assert server.process.wait(PATIENCE_SECONDS) == 0


def test_process_has_none_of_the_servers_descriptors(counter):
    with started(counter, "--no-grpc") as server:
        (process,) = model_processes(server)
        files = [
            os.readlink(path) for path in Path(f"/proc/{process.pid}/fd").iterdir()
        ]
        (listening,) = [
            connection
            for connection in psutil.Process(server.process.pid).net_connections()
            if connection.status == psutil.CONN_LISTEN
        ]
        listened = Path(f"/proc/{server.process.pid}/fd/{listening.fd}").readlink()
        assert str(listened) not in files


def test_process_of_an_old_version_ends(counter, tmp_path):
    with started(counter, "--no-grpc") as server:
        (first,) = model_processes(server)
        hidden = saved_models.save_counter(tmp_path / "2", 2)
        shutil.move(hidden, counter / "2")
        wait_until(lambda: server.predict() == (200, 2))
        wait_until(lambda: not first.is_running())
        assert len(model_processes(server)) == 1


def test_processes_end_with_the_server_and_not_by_ctrl_c(counter):
    with started(counter, "--no-grpc") as server:
        processes = psutil.Process(server.process.pid).children(recursive=True)
        assert len(processes) == 2
        for process in processes:
            process.send_signal(signal.SIGINT)
        assert server.predict() == (200, 1)
        server.process.kill()
        wait_until(lambda: not any(process.is_running() for process in processes))


def test_loading_has_a_low_priority_and_predicting_has_not(counter):
    with started(counter, "--no-grpc") as server:
        assert server.predict() == (200, 1)
        (process,) = model_processes(server)
        usual = os.getpriority(os.PRIO_PROCESS, server.process.pid)
        threads = {thread.id for thread in process.threads()} - {process.pid}
        others = {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}
        assert others == {usual}
        assert os.getpriority(os.PRIO_PROCESS, process.pid) > usual or usual == 19


def test_errors_of_a_model_reach_the_client(counter, tmp_path):
    with started(counter, "--no-grpc") as server:
        status, error = server.predict("x")
        assert status == 400
        assert "steps" in error
        broken = tmp_path / "2"
        broken.mkdir()
        (broken / "saved_model.pb").write_text("broken")
        shutil.move(broken, counter / "2")
        wait_until(lambda: "cannot load" in server.read())
        assert "DecodeError" in server.read()
        assert server.predict() == (200, 1)


def test_error_of_a_request_is_the_same_in_another_process():
    error = RequestError(grpc.StatusCode.INVALID_ARGUMENT, "x", "1")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.message) == (error.code, error.message)
