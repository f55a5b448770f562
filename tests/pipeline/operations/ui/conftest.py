"""A web view of the sample output directory."""

import contextlib
import threading

import pytest
import uvicorn

from pipeline.operations.ui.app import application
from serving.launch import listen
from tests.pipeline.operations.ui import sample_output


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return sample_output.write(tmp_path_factory.mktemp("runs") / "output")


@pytest.fixture(scope="module")
def address(paths):
    """Where the web view of the sample output directory is served."""
    with serving([paths.root]) as address:
        yield address


@contextlib.contextmanager
def serving(outputs):
    """Serves the web view of output directories, and yields its address."""
    with listen("127.0.0.1", 0, "port") as socket:
        server = uvicorn.Server(
            uvicorn.Config(application(outputs), log_level="warning")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
        server.should_exit = True
        thread.join()
