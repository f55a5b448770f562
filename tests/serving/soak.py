"""Mixed load on a server whose versions change; every response is checked."""

import contextlib
import dataclasses
import itertools
import json
import shutil
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import httpx
import numpy as np
import psutil
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from contracts.versions import served_versions
from portable.model import PortableModel
from tests.serving import small_models
from tests.serving.conftest import PATIENCE_SECONDS
from tests.tiny import WORDS

MAX_GROWTH_BYTES = 100 << 20
SETTLING_SECONDS = 5
_STRING = 7  # DT_STRING
# Bodies that are refused with 400.
MALFORMED = [
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b'{"instances": []}',
    b'{"instances": [1]}',
    b'{"instances": ["a"], "inputs": ["a"]}',
    b'{"instances": [{"other": "a"}]}',
    b'{"instances": [{"b64": "?"}]}',
    b'{"instances": ["a"], "signature_name": "none"}',
    b"[" * 100_000,
]


class EchoModel:
    """`small_models.Echo`, whose responses have the texts and the version."""

    def save(self, directory, version):
        """Writes a version."""
        small_models.save_echo(directory, version)

    def rows_of(self, texts):
        """Returns the rows of a request."""
        return texts

    def read(self, texts, rows):
        """Returns the texts that a response to texts has, and its versions."""
        return [row["echo"] for row in rows], {row["version"] for row in rows}


class PortableModelOfTexts:
    """A portable model, whose classes have the version.

    A response has a text if it has the logits of the text.

    Args:
      folder: Its folder.
    """

    def __init__(self, folder):
        self._folder = folder
        self._model = PortableModel(str(folder), threads=1)
        self._columns = self._model.description.text_columns

    def save(self, directory, version):
        """Writes a version."""
        shutil.copytree(self._folder, directory)
        path = directory / "model.json"
        described = json.loads(path.read_text())
        described["classes"] = [f"{name} {version}" for name in described["classes"]]
        path.write_text(json.dumps(described))
        (directory / "manifest.json").unlink()
        served_versions.write_manifest(str(directory))

    def rows_of(self, texts):
        """Returns the rows of a request."""
        return [dict.fromkeys(self._columns, text) for text in texts]

    def read(self, texts, rows):
        """Returns the texts that a response to texts has, and its versions."""
        if len(rows) != len(texts):
            return rows, {0}
        expected = self._model.predict([texts] * len(self._columns))["logits"]
        echoes = [
            text if np.allclose(row["logits"], logits, rtol=0, atol=1e-5) else row
            for text, row, logits in zip(texts, rows, expected, strict=True)
        ]
        return echoes, {int(row["class"].rpartition(" ")[2]) for row in rows}


@dataclasses.dataclass
class Outcome:
    """What a load did, and what it cost.

    Attributes:
      predicted: Requests whose response had the texts and a version that was served.
      refused: Malformed requests that were refused.
      aborted: Clients that left before their response.
      versions: The versions that predicted.
      growth_bytes: Memory that the server's processes have more at the end than after
        the first change of version.
    """

    predicted: int = 0
    refused: int = 0
    aborted: int = 0
    versions: set = dataclasses.field(default_factory=set)
    growth_bytes: int = 0


class Soak:
    """Clients of a server, until they are stopped.

    Args:
      model: The model, such as `EchoModel`. A server with gRPC has that one.
      address: The server's address of HTTP.
      rpc: Its `HOST:PORT` of gRPC, or `off`.
      root: The directory of its versions, of which the newest is 1.
      process: The server's process, as `psutil.Process`; its children count, too.
    """

    def __init__(self, model, address, rpc, root, process):
        self._model = model
        self._address, self._rpc = httpx.URL(address), rpc
        self._root = root
        self._path = f"/v1/models/{root.name}:predict"
        self._process = process
        self._stop = threading.Event()
        self.outcome = Outcome()
        self._lock = threading.Lock()

    def run(self, seconds, swaps):
        """Sends requests for a time, in which the version changes some times.

        Raises:
          AssertionError: A response is wrong or missing, a version was not served, or
            the server's memory has grown too much.
        """
        clients = [self._rest, self._rest, self._malformed, self._abort]
        if self._rpc != "off":
            clients.append(self._grpc)
        with ThreadPoolExecutor(len(clients)) as pool:
            running = [pool.submit(c, i) for i, c in enumerate(clients)]
            try:
                self._change_versions(running, seconds, swaps)
            finally:
                self._stop.set()
            for client in running:
                client.result(PATIENCE_SECONDS)
        growth = self.outcome.growth_bytes
        assert growth < MAX_GROWTH_BYTES, f"memory has grown by {growth >> 20} MiB"
        return self.outcome

    def _change_versions(self, running, seconds, swaps):
        start, memory = time.monotonic(), 0
        for number in range(swaps + 1):
            end = start + seconds * (number + 1) / (swaps + 1)
            wait(lambda end=end: time.monotonic() > end, running, seconds)
            if number == min(1, swaps):  # everything was done once
                memory = self._memory()
            if number < swaps:
                hidden = self._root / ".next"
                self._model.save(hidden, number + 2)
                hidden.rename(self._root / str(number + 2))
                wait(lambda n=number: n + 2 in self.outcome.versions, running)
                wait(lambda n=number: self._is_unloaded(n + 1), running)
                shutil.rmtree(self._root / str(number + 1))
        # What is freed after a while did not leak.
        end = time.monotonic() + SETTLING_SECONDS
        growth = self._memory() - memory
        while growth > MAX_GROWTH_BYTES and time.monotonic() < end:
            time.sleep(0.1)
            growth = min(growth, self._memory() - memory)
        self.outcome.growth_bytes = growth

    def _is_unloaded(self, version):
        path = f"/v1/models/{self._root.name}/versions/{version}"
        response = httpx.get(self._address.join(path), timeout=PATIENCE_SECONDS)
        (status,) = response.json()["model_version_status"]
        return status["state"] == "END"

    def _memory(self):
        size = 0
        for process in (self._process, *self._process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                size += process.memory_full_info().pss  # they share pages
        return size

    def _count(self, name):
        with self._lock:
            setattr(self.outcome, name, getattr(self.outcome, name) + 1)

    def _check(self, texts, echoes, versions, last):
        """Checks a response; returns the version, which may not decrease."""
        assert echoes == texts, f"sent {texts}, received {echoes}"
        (version,) = set(versions)
        assert version >= last, f"version {version} predicted after {last}"
        self.outcome.versions.add(version)
        self._count("predicted")
        return version

    def _texts(self, client):
        """Yields lists of texts that no other request has, of many lengths."""
        for number in itertools.count():
            if self._stop.is_set():
                return
            yield [
                f"{name(client, number, row)} " + "x " * (number * 37 % 1500)
                for row in range(1 + number % 8)
            ]

    def _rest(self, client):
        last = 0
        with httpx.Client(base_url=self._address, timeout=PATIENCE_SECONDS) as http:
            for texts in self._texts(client):
                body = {"instances": self._model.rows_of(texts)}
                response = http.post(self._path, json=body)
                assert response.status_code == 200, response.text
                read = self._model.read(texts, response.json()["predictions"])
                last = self._check(texts, *read, last)

    def _grpc(self, client):
        last = 0
        with grpc.insecure_channel(self._rpc) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            for texts in self._texts(client):
                request = predict_pb2.PredictRequest(
                    model_spec={"name": self._root.name}
                )
                tensor = request.inputs["text"]
                tensor.dtype = _STRING
                tensor.tensor_shape.dim.add(size=len(texts))
                tensor.string_val.extend(text.encode() for text in texts)
                outputs = stub.Predict(request, timeout=PATIENCE_SECONDS).outputs
                echoes = [text.decode() for text in outputs["echo"].string_val]
                last = self._check(texts, echoes, outputs["version"].int64_val, last)

    def _malformed(self, client):
        with httpx.Client(base_url=self._address, timeout=PATIENCE_SECONDS) as http:
            for body in itertools.cycle(MALFORMED):
                if self._stop.is_set():
                    return
                response = http.post(self._path, content=body)
                assert response.status_code == 400, (body[:100], response.text)
                self._count("refused")

    def _abort(self, client):
        """Leaves in the middle of a request, or before its response."""
        for texts in self._texts(client):
            body = json.dumps({"instances": self._model.rows_of(texts)}).encode()
            head = (
                f"POST {self._path} HTTP/1.1\r\nhost: localhost\r\n"
                f"content-length: {len(body)}\r\n\r\n"
            ).encode()
            whole = head + body
            address = (self._address.host, self._address.port)
            with contextlib.suppress(ConnectionError):
                connection = socket.create_connection(address, PATIENCE_SECONDS)
                with connection:
                    # Closes by a reset.
                    linger = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    connection.sendall(whole[: len(whole) * (len(texts) % 4 + 1) // 4])
            self._count("aborted")
            self._stop.wait(0.02)


def name(*numbers):
    """Returns words that no other numbers have, of the tiny model's vocabulary."""
    words = WORDS[:10]
    return ", ".join(
        " ".join(words[int(digit)] for digit in str(number)) for number in numbers
    )


def wait(condition, clients, seconds=0):
    """Waits until a condition holds; raises the error of a client that fails.

    It fails a minute after `seconds`.
    """
    end = time.monotonic() + seconds + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, "timed out"
        for client in clients:
            if client.done():
                client.result()
        time.sleep(0.05)
