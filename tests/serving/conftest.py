"""Servers on loopback ports, which the tests share."""

import asyncio
import contextlib
import dataclasses
import functools
import json
import shutil
import threading
import time
from pathlib import Path

import grpc
import httpx
import pytest
import uvloop

from bert_runtime import served_model
from contracts.versions import served_versions
from contracts.versions.exported_model import GRAPH_FILE, PORTABLE_FILE
from modules.export.onnx import portable_folder
from modules.export.pushed_model import read_pushed
from portable import folder
from serving import discovery, launch
from serving.batching import BatchingSettings
from serving.limits import RequestLimits
from serving.loaded_versions import LoadedVersions
from serving.monitoring import Metrics
from serving.saved_models import models
from serving.saved_models.grpc_server import GrpcServer
from serving.server import Server
from serving.settings import ServerSettings
from tests.serving import small_models
from tests.serving.certificates import Authority

PATIENCE_SECONDS = 60
LIMITS = RequestLimits(
    max_queued_bytes=30_000,
    request_seconds=1.0,
    max_connections=20,
    header_seconds=0.5,
)
VERSION = "1700000000000"
EXAMPLES = [
    {"question": "The cat sees the tree.", "answer": "A dog likes a road!"},
    {"question": "the big bird", "answer": "a small fish"},
]
# A row of each shared model, by the name of the model.
INSTANCES = {"half_plus_three": 1.0, "pairs": EXAMPLES[0]}
# Other instances of a file of examples, which lack an input of the model.
NO_EXAMPLES = [None, 1.0, {"question": "alone"}]
CARD = """---
license: apache-2.0
---
# Card of pairs

| metric | value |
|---|---|
| accuracy | **0.9** |

```
curl -d '{"instances": [{"question": "the cat", "answer": "a dog"}]}' http://localhost:8501/v1/models/pairs:predict
```

## Limits
- none <b>known</b>
- see [the docs](https://example.com/)
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of model, and what loads and serves it.

    Attributes:
      load: Loads a directory as a version.
      open_grpc: Returns gRPC with an open port; None for a kind without gRPC.
      main_file: See `served_versions.is_model`.
    """

    load: object
    open_grpc: object
    main_file: str


SAVED_MODELS = Kind(models.load, functools.partial(GrpcServer, port=0), GRAPH_FILE)
PORTABLE = Kind(served_model.load, None, PORTABLE_FILE)


@dataclasses.dataclass(frozen=True)
class Stored:
    """A model of a kind in a directory.

    Attributes:
      directory: The model, or the directory of its versions.
      kind: The kind.
      card: Where a version has its card.
      examples: Where it has its examples.
    """

    directory: Path
    kind: Kind
    card: str = served_versions.CARD_FILE
    examples: str = served_versions.EXAMPLES_FILE

    def running(self, **settings):
        """Serves the model, as `running` does."""
        return running(self.directory, kind=self.kind, **settings)

    def copy_to(self, directory):
        """Returns a copy in a directory."""
        copy = shutil.copytree(self.directory, directory / self.directory.name)
        return dataclasses.replace(self, directory=copy)


@dataclasses.dataclass
class Running:
    """A server in a thread of this process, and its clients.

    `channel` and `grpc_port` are None without gRPC.
    """

    http: httpx.Client
    channel: grpc.Channel | None
    grpc_port: int | None
    metrics: Metrics
    versions: LoadedVersions
    # What `Server.run` returned, after the context: whether the server drained.
    drained: list[bool]

    def post(self, path, **content):
        return self.http.post(f"/v1/models/{path}", json=content)

    def predict_row(self):
        """Posts a row of the model; returns the response."""
        name = self.versions.name
        return self.post(f"{name}:predict", instances=[INSTANCES[name]])

    def sample(self, name, **labels):
        """Returns the value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels)


def wait_until(condition):
    """Waits until a condition holds; fails after a minute."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


def check_refused(response, *parts, status=400):
    """Asserts the status of a response, and parts of its error."""
    assert response.status_code == status
    for part in parts:
        assert part in response.json()["error"]


@contextlib.contextmanager
def rpc_refused(code, message=""):
    """Expects an error of gRPC with the name of a code and a part of its message."""
    with pytest.raises(grpc.RpcError) as refused:
        yield refused
    assert refused.value.code() is grpc.StatusCode[code]
    assert message in refused.value.details()


def read_all(client):
    """Returns what the server sends until it closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(1000):
            received += chunk
    return received


@contextlib.contextmanager
def running(
    directory,
    *,
    kind=SAVED_MODELS,
    headers=None,
    verify=True,
    credentials=None,
    **settings,
):
    """Serves a directory of models of a kind until the context ends.

    `headers`, `verify` (an `ssl.SSLContext`) and gRPC's `credentials` are the clients'.
    """
    settings = ServerSettings(Path(directory), port=0, poll_seconds=0.05, **settings)
    source = discovery.find_model(settings.model, settings.name, kind.main_file)
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(launch.listen("127.0.0.1", 0, "--port"))
        server = Server(settings, source, listening, kind.load, kind.open_grpc)
        loop, stop = uvloop.new_event_loop(), asyncio.Event()  # as `launch` has
        drained = []
        thread = threading.Thread(
            target=lambda: drained.append(loop.run_until_complete(server.run(stop)))
        )
        port = listening.getsockname()[1]
        thread.start()
        stack.callback(thread.join)
        stack.callback(loop.call_soon_threadsafe, stop.set)
        http = stack.enter_context(
            httpx.Client(
                base_url=f"{'https' if settings.tls else 'http'}://127.0.0.1:{port}",
                timeout=PATIENCE_SECONDS,
                headers=headers,
                verify=verify,
            )
        )
        wait_until(lambda: http.get("/readyz").status_code == 200)
        channel = None
        if server.grpc_port is not None:
            address = f"127.0.0.1:{server.grpc_port}"
            channel = stack.enter_context(
                grpc.secure_channel(address, credentials)
                if credentials
                else grpc.insecure_channel(address)
            )
        yield Running(
            http,
            channel,
            server.grpc_port,
            server.metrics,
            server.versions,
            drained,
        )


@pytest.fixture(scope="package")
def authority(tmp_path_factory):
    """The CA of servers with TLS."""
    return Authority(tmp_path_factory.mktemp("tls"), "authority")


@pytest.fixture(scope="package")
def half_plus_three(tmp_path_factory):
    """Serves the model of TensorFlow Serving's documentation as version 123."""
    root = tmp_path_factory.mktemp("served") / "half_plus_three"
    small_models.save_half_plus_three(root / "00000123")
    with running(root) as server:
        yield server


@pytest.fixture(scope="package")
def root(tmp_path_factory):
    """The directory of the model of TensorFlow Serving's documentation."""
    root = tmp_path_factory.mktemp("served") / "half_plus_three"
    small_models.save_half_plus_three(root / "1")
    return root


@pytest.fixture(scope="package")
def types(tmp_path_factory):
    """Serves a single SavedModel with inputs and outputs of several types."""
    root = small_models.save_types(tmp_path_factory.mktemp("served") / "types")
    with running(root) as server:
        yield server


@pytest.fixture(scope="package")
def counter(tmp_path_factory):
    """The directory of the model that returns its version."""
    root = tmp_path_factory.mktemp("served") / "counter"
    small_models.save_counter(root / "1", 1)
    return root


@pytest.fixture(scope="package")
def limited(counter):
    """Serves the counter with low limits."""
    with running(counter, limits=LIMITS) as server:
        yield server


@pytest.fixture(scope="package")
def exported(export):
    """A tiny model of pairs, as the pipeline exports it."""
    return export("pairs")


@pytest.fixture(scope="package")
def portable(exported, tmp_path_factory):
    """The portable folder of the model of pairs, without a card and examples."""
    directory = tmp_path_factory.mktemp("portable") / "pairs"
    directory.mkdir()
    portable_folder.write(read_pushed(str(exported.directory)), directory)
    return directory


@pytest.fixture(
    scope="package",
    params=["SavedModel", pytest.param("portable", marks=pytest.mark.slow)],
)
def stored(request, tmp_path_factory):
    """The model of each kind that loads fastest, as version 1."""
    if request.param == "SavedModel":
        return Stored(request.getfixturevalue("root"), SAVED_MODELS)
    root = tmp_path_factory.mktemp("served") / "pairs"
    shutil.copytree(request.getfixturevalue("portable"), root / "1")
    files = folder.CARD_FILE, folder.EXAMPLES_FILE
    return Stored(root, PORTABLE, *files)


@pytest.fixture(params=["SavedModel", "portable"])
def stored_pairs(request, exported, portable):
    """The same model of pairs as each kind."""
    if request.param == "SavedModel":
        return Stored(exported.directory, SAVED_MODELS)
    return Stored(portable, PORTABLE)


@contextlib.contextmanager
def running_pairs(model, version):
    """Serves a copy of a model with examples and a card.

    A batch waits long enough for 16 clients.
    """
    shutil.copytree(model.directory, version)
    examples = json.dumps({"instances": [*NO_EXAMPLES, *EXAMPLES]})
    (version / model.examples).write_text(examples)
    (version / model.card).write_text(CARD)
    batching = BatchingSettings(timeout_seconds=0.2)
    with running(version.parent, kind=model.kind, batching=batching) as server:
        yield server


@pytest.fixture(scope="package")
def saved_pairs(exported, tmp_path_factory):
    """Serves the SavedModel of pairs with examples, a description and a card."""
    version = tmp_path_factory.mktemp("served") / "pairs" / VERSION
    with running_pairs(Stored(exported.directory, SAVED_MODELS), version) as server:
        yield server


@pytest.fixture(scope="package")
def portable_pairs(portable, tmp_path_factory):
    """Serves the same model from its portable folder."""
    version = tmp_path_factory.mktemp("served") / "pairs" / VERSION
    files = folder.CARD_FILE, folder.EXAMPLES_FILE
    model = Stored(portable, PORTABLE, *files)
    with running_pairs(model, version) as server:
        yield server


SERVERS_OF_PAIRS = ("saved_pairs", "portable_pairs")


@pytest.fixture(params=SERVERS_OF_PAIRS)
def pairs(request):
    """Each server of the model of pairs."""
    return request.getfixturevalue(request.param)


@pytest.fixture(
    params=[
        "half_plus_three",
        pytest.param("portable_pairs", marks=pytest.mark.slow),
    ]
)
def server(request):
    """The server of each kind of models that starts fastest."""
    return request.getfixturevalue(request.param)
