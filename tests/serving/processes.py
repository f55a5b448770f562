"""The server as a process of its own, with a client."""

import contextlib
import re
import signal
import subprocess
import sys

import httpx

from pipeline.config.paths import REPOSITORY
from tests.serving.conftest import PATIENCE_SECONDS, wait_until


class Process:
    """`python -m PROGRAM serve`, with a client."""

    def __init__(
        self, directory, *arguments, python=sys.executable, program="pipeline"
    ):
        self.log = directory.parent / "log"
        command = [python, "-m", program, "serve", "--model", directory]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*command, "--port", "0", "--poll-seconds", "0.1", *arguments],
                cwd=REPOSITORY,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(
                lambda: "INFO ready" in self.read() or self.process.poll() is not None
            )
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise
        address, self.rpc = re.search(r"at (\S+), gRPC (\S+)", self.read()).groups()
        self.http = httpx.Client(base_url=address, timeout=PATIENCE_SECONDS)

    def read(self):
        return self.log.read_text()

    def predict(self, steps=0, path="counter"):
        """Returns the status, and the version that predicted or the error."""
        response = self.http.post(
            f"/v1/models/{path}:predict", json={"instances": [steps]}
        )
        if response.status_code == 200:
            return 200, response.json()["predictions"][0]
        return response.status_code, response.json()["error"]

    def states(self):
        statuses = self.http.get("/v1/models/counter").json()["model_version_status"]
        return {int(status["version"]): status["state"] for status in statuses}

    def metric(self, name):
        text = self.http.get("/metrics").text
        return float(re.search(rf"^{name} (.*)$", text, re.M)[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def started(directory, *arguments, **options):
    """Starts a server, and kills it when the context ends."""
    server = Process(directory, *arguments, **options)
    try:
        yield server
    finally:
        server.http.close()
        server.process.kill()
        server.process.wait()
