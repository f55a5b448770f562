"""The runtime's wheel in an environment of its own."""

import contextlib
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from pipeline.config.paths import REPOSITORY

LOCKS = REPOSITORY / "deploy" / "runtime" / "locks"
START_SECONDS = 60


def find_python(version):
    """Returns the path of a Python; skips the test if there is none that runs."""
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*"))
    for python in (f"python{version}", *(path / "bin" / "python" for path in pyenv)):
        check = "import sys; print('%d.%d' % sys.version_info[:2])"
        with contextlib.suppress(OSError):
            command = [python, "-c", check]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            if found.stdout.strip() == version:
                return shutil.which(python)
    return pytest.skip(f"no Python {version} on the PATH or below ~/.pyenv/versions")


class Environment:
    """A virtual environment with the runtime and nothing else.

    Args:
      path: Where it is created.
      python: The version of Python, such as `3.11`.
      wheel: The runtime's wheel.
      has_lock: Whether its requirements are installed by uv from the lock for this
        Python; otherwise pip resolves them.
    """

    def __init__(self, path, python, wheel, has_lock):
        self.bin = path / "bin"
        pip = ["--disable-pip-version-check", "--python", self.bin / "python"]
        uv = [sys.executable, "-m", "uv", "pip", "install", *pip[1:], "--quiet"]
        steps = [[find_python(python), "-m", "venv", "--without-pip", path]]
        if has_lock:
            lock = LOCKS / f"py{python}.lock"
            steps += [
                [*uv, "--require-hashes", "--compile-bytecode", "--requirement", lock],
                [*uv, "--no-deps", "--offline", wheel],
            ]
        else:
            steps.append(
                [sys.executable, "-m", "pip", *pip, "install", "--quiet", wheel]
            )
        for step in steps:
            # The installer's error is the test's.
            subprocess.run(step, check=True)
        (self.site_packages,) = path.glob("lib/python*/site-packages")

    def packages(self):
        """Returns the names of its distributions."""
        names = [path.name for path in self.site_packages.glob("*.dist-info")]
        return {
            re.match(r"(.+?)-\d", name)[1].lower().replace("_", "-") for name in names
        }

    def run(self, *command, cwd, status=0):
        """Runs a command of the environment; returns its output and its errors."""
        finished = subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=cwd,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == status, finished.stderr
        return finished.stdout + finished.stderr

    @contextlib.contextmanager
    def serving(self, folder, cwd):
        """Serves a folder; yields a client, and checks that SIGTERM ends the server."""
        log = cwd / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [self.bin / "bert-runtime", "serve", "--model", folder, "--port", "0"],
                cwd=cwd,
                env={"PATH": "/usr/bin:/bin"},
                stdout=output,
                stderr=output,
            )
        try:
            end = time.monotonic() + START_SECONDS
            while not (
                ready := re.search(
                    r" at (\S+),.*\bready$", log.read_text(), re.S | re.M
                )
            ):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.05)
            with httpx.Client(base_url=ready[1], timeout=START_SECONDS) as client:
                yield client
            process.terminate()
            assert process.wait(START_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
