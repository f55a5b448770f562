"""A model server for as long as a block of code runs."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts.errors import UsageError
from pipeline.api.arguments import Port, Seconds, check_model, checked
from pipeline.api.looking import Run
from pipeline.config.paths import REPOSITORY
from serving import discovery, launch

# A name has no "/", so that the address is the first with one.
_SERVING = re.compile(r" serving (.+) at (https?://\S+), gRPC ")
_READY = re.compile(r" ready$", re.MULTILINE)
_POLL_SECONDS = 0.1
_STOP_SECONDS = 60  # it finishes its requests


@dataclasses.dataclass(frozen=True)
class Server:
    """A running model server.

    Attributes:
      url: The address of its page and of its REST API.
      name: The model's name in requests.

    Raises:
      UsageError: No URL can reach the name.
    """

    url: str
    name: str

    def __post_init__(self) -> None:
        discovery.check_name(self.name, "name")

    def predict(self, instances: Sequence[Any]) -> list[Any]:
        """Sends one request to TensorFlow Serving's REST API.

        Args:
          instances: Texts, or a dictionary of the text columns for each row.

        Returns:
          The predictions as the server returns them, in the order of the instances.

        Raises:
          UsageError: The instances are not a list of values that JSON can hold.
          urllib.error.HTTPError: The server refused the request; its message says why.
        """
        if isinstance(instances, (str, bytes, Mapping)) or hasattr(
            instances, "columns"
        ):
            raise UsageError(
                "instances",
                type(instances).__name__,
                "a list of texts, or of a dictionary for each row, such as "
                "frame.to_dict('records')",
                name="E-text-refused",
            )
        try:
            content = json.dumps({"instances": list(instances)})
        except (TypeError, ValueError) as error:
            allowed = "values that JSON can hold"
            raise UsageError(
                "instances", str(error), allowed, name="E-text-refused"
            ) from error
        name = urllib.parse.quote(self.name, safe="")
        request = urllib.request.Request(
            f"{self.url}/v1/models/{name}:predict",
            content.encode(),
            {"Content-Type": "application/json"},
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request) as response:
                predictions: list[Any] = json.load(response)["predictions"]
        except urllib.error.HTTPError as error:
            body = error.read()
            message = body.decode("utf-8", "replace")
            raise urllib.error.HTTPError(
                request.full_url, error.code, message, error.headers, io.BytesIO(body)
            ) from None
        return predictions


@checked
@contextlib.contextmanager
def serve(
    model: Run | str | Path, *, port: Port = 0, timeout_seconds: Seconds = 120.0
) -> Iterator[Server]:
    """Serves a model on this machine as long as the context is open.

    The server is a process of its own, as of the command `serve`. It ends with this
    process, even if that is killed.

    Args:
      model: A run that pushed a model, a directory of versions, or one version.
      port: The port; 0 picks a free one.
      timeout_seconds: Maximum time until a version is loaded.

    Yields:
      The server, which can predict.

    Raises:
      UsageError: There is no model, or the server did not start; the message has its
        reason.
    """
    if isinstance(model, Run):
        model = model.require_pushed()
    # The process checks them too, but its errors name the options of the command.
    check_model(str(model))
    discovery.find_model(Path(model))
    launch.listen("127.0.0.1", port, "port").close()
    command = [sys.executable, "-m", "pipeline", "serve", "--no-grpc"]
    # It also ends if this process is killed: the kernel then closes the pipe.
    command.append("--end-with-stdin")
    command += ["--model", str(model), "--port", str(port)]
    paths = [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONIOENCODING": "utf-8",  # of the log
    }
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log,
        subprocess.Popen(
            command, stdout=log, stderr=log, stdin=subprocess.PIPE, env=environment
        ) as process,
    ):
        try:
            yield _wait(process, Path(f"/proc/self/fd/{log.fileno()}"), timeout_seconds)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(process: subprocess.Popen[bytes], log: Path, seconds: float) -> Server:
    """Returns the server when it has loaded a version."""
    end = time.monotonic() + seconds
    while True:
        has_ended = process.poll() is not None
        text = log.read_text("utf-8", "replace")
        started = _SERVING.search(text)
        if started and _READY.search(text):
            return Server(started[2], started[1])
        if has_ended or time.monotonic() > end:
            lines = text.strip().splitlines() or ["it printed nothing"]
            what = "ended" if has_ended else f"is not ready after {seconds:g} s"
            raise UsageError(
                got=f"the server {what}: {lines[-1]}",
                advice="correct the cause, or give it more time with `timeout_seconds`",
                name="E-port-unavailable",
            )
        time.sleep(_POLL_SECONDS)
