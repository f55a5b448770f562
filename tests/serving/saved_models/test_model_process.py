"""Each version of a model is in a process of its own, which ends with its use."""

import contextlib
import os
import pickle
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from pipeline.local.interruption import is_alive
from serving.errors import Code, RequestError
from tests.serving import small_models
from tests.serving.conftest import PATIENCE_SECONDS, wait_until
from tests.serving.processes import started

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The directory of the counter, with version 1 and those that tests push."""
    root = tmp_path_factory.mktemp("served") / "counter"
    small_models.save_counter(root / "1", 1)
    return root


@pytest.fixture(scope="module")
def server(root):
    """A server that tests share; it is not stopped."""
    with started(root, "--no-grpc") as server:
        yield server


def push(server, root):
    """Pushes the next version, once no process has an older one than the last."""
    find_process(server)
    version = 1 + max(int(path.name) for path in root.iterdir())
    hidden = small_models.save_counter(root / f".{version}.incomplete", version)
    hidden.rename(root / str(version))
    return version


def find_processes(server):
    """Returns the processes that have a model, the oldest first."""
    (zygote,) = psutil.Process(server.process.pid).children()
    return sorted(zygote.children(), key=lambda process: process.create_time())


def find_process(server):
    """Returns the process that has a model, once it is the only one."""
    wait_until(lambda: len(find_processes(server)) == 1)
    return find_processes(server)[0]


@contextlib.contextmanager
def request_in_flight(server, root):
    """Sends a request that waits for a file.

    Yields the future of its response, and a function that writes the file.
    """
    go = root.with_name("go")
    with ThreadPoolExecutor(1) as clients:
        try:
            waiting = clients.submit(server.predict, small_models.WAITING)
            wait_until(lambda: server.metric("serving_requests_in_flight") == 1)
            yield waiting, go.touch
        finally:
            go.touch()
    go.unlink()


def test_model_whose_process_was_killed_is_loaded_again(server, root):
    version = push(server, root)
    wait_until(lambda: server.predict() == (200, version))
    first = find_process(server)
    first.kill()
    results = []

    def predicts():
        results.append(server.predict())
        return results[-1] == (200, version)

    wait_until(predicts)
    assert {status for status, _ in results} <= {200, 503}
    assert f"the process of counter version {version} has ended" in server.read()
    assert "was ended by SIGKILL" in server.read()
    assert find_process(server).pid != first.pid


def test_request_whose_process_is_killed_fails_and_no_older_version_serves(
    server, root
):
    version = push(server, root)
    wait_until(lambda: server.predict() == (200, version))
    process, log = find_process(server), server.read()
    with request_in_flight(server, root) as (waiting, _):
        process.kill()
        error = f"the process of version {version} has ended; try again later"
        assert waiting.result() == (503, error)
        results = [server.predict() for _ in range(4)]  # more than --inference-threads
        wait_until(lambda: server.predict() == (200, version))
    assert {result for result in results if result[0] == 200} <= {(200, version)}
    loaded = re.findall(r"loaded counter version (\d+)", server.read()[len(log) :])
    assert {*loaded} == {str(version)}


def test_version_whose_process_is_killed_while_it_loads_is_loaded_later(server, root):
    log = server.read()
    version = push(server, root)
    wait_until(lambda: len(find_processes(server)) == 2)
    find_processes(server)[-1].kill()
    wait_until(lambda: "ProcessEndedError" in server.read()[len(log) :])
    wait_until(lambda: server.predict() == (200, version))


def test_server_ends_if_it_can_load_no_more_versions(root):
    with started(root, "--no-grpc") as server:
        (starter,) = psutil.Process(server.process.pid).children()
        starter.kill()
        assert server.process.wait(PATIENCE_SECONDS) == 1
        assert "no version can be loaded any more" in server.read()


def test_requests_in_flight_are_finished_if_the_whole_group_is_stopped(root):
    with (
        started(root, "--no-grpc") as server,
        request_in_flight(server, root) as (waiting, finish),
    ):
        for process in psutil.Process(server.process.pid).children(recursive=True):
            process.terminate()
        server.process.terminate()
        wait_until(lambda: "draining: 1 requests" in server.read())
        finish()
        assert waiting.result()[0] == 200
        assert server.process.wait(PATIENCE_SECONDS) == 0


def test_process_has_none_of_the_servers_descriptors(server):
    descriptors = Path(f"/proc/{find_process(server).pid}/fd").iterdir()
    (listening,) = [
        connection
        for connection in psutil.Process(server.process.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    listened = Path(f"/proc/{server.process.pid}/fd/{listening.fd}").readlink()
    assert listened not in [path.readlink() for path in descriptors]


def test_process_of_an_old_version_ends(server, root):
    first = find_process(server)
    version = push(server, root)
    wait_until(lambda: server.predict() == (200, version))
    wait_until(lambda: not first.is_running())
    assert len(find_processes(server)) == 1


def test_processes_end_with_the_server_and_not_by_ctrl_c(root):
    with started(root, "--no-grpc") as server:
        processes = psutil.Process(server.process.pid).children(recursive=True)
        assert len(processes) == 2
        for process in processes:
            process.send_signal(signal.SIGINT)
        assert server.predict()[0] == 200
        server.process.kill()
        wait_until(lambda: not any(map(is_alive, processes)))


def test_loading_has_a_low_priority_and_predicting_has_not(server):
    process = find_process(server)
    assert server.predict()[0] == 200
    usual = os.getpriority(os.PRIO_PROCESS, server.process.pid)
    threads = {thread.id for thread in process.threads()} - {process.pid}
    others = {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}
    assert others == {usual}
    assert os.getpriority(os.PRIO_PROCESS, process.pid) > usual or usual == 19


def test_errors_of_a_model_reach_the_client(server, root, tmp_path):
    status, error = server.predict("x")
    assert status == 400
    assert "steps" in error
    (tmp_path / "saved_model.pb").write_text("broken")
    version = 1 + max(int(path.name) for path in root.iterdir())
    tmp_path.rename(root / str(version))
    wait_until(lambda: f"cannot load {root}/{version}: VersionError" in server.read())
    assert server.predict()[0] == 200


def test_error_of_a_request_is_the_same_in_another_process():
    error = RequestError(Code.INVALID_ARGUMENT, "x", "1")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.message) == (error.code, error.message)
