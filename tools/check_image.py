"""Checks the container image without a container engine: `make check-image`.

Reads the Dockerfile by rules, then installs what the image would contain in a temporary
folder, by the script that the Dockerfile runs, and starts there what a cluster starts.
Prints a line for each check; exit status 1 tells that something is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path

from tools import image_rules
from tools.dockerfile import Dockerfile, build_context

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "bert-fine-tuning-pipeline"
SECRET_FILES = re.compile(
    r"(^|/)(\.env.*|\.git|\.netrc|\.pypirc|id_(rsa|ed25519).*|.*credentials.*\.json"
    r"|.*\.(key|pem|p12|kubeconfig)|pip\.conf|tests?/.*)$"
)
# What `pip` in every Python of the base image is, and no lock.
FROM_BASE = {"pip"}


class Image:
    """What the image would contain, in a folder.

    Attributes:
      context: What `docker build` would be given.
      prefix: The image's /usr/local: a virtual environment, for it needs a Python.
      home: An empty home folder, where everything starts.
      parts: Size of what each part put there, in bytes.
    """

    def __init__(self, folder: Path, accelerator: str):
        self._folder = folder
        self.context = folder / "context"
        self.prefix = folder / "usr-local"
        self.home = folder / "home"
        self.home.mkdir()
        dockerfile = Dockerfile.read(ROOT / "Dockerfile", ACCELERATOR=accelerator)
        self._environment = {
            name: value
            for stage in dockerfile.lineage()
            for name, value in stage.environment().items()
        }
        self.parts: dict[str, int] = {}
        self._make_base()
        self._copy_context()
        parts = ["packages", *(["accelerator"] * (accelerator == "gpu")), "project"]
        self._install("uv")
        for part in parts:
            self.parts[part] = self._lay_over(self._install(part))

    @property
    def site_packages(self) -> Path:
        """Where its packages are."""
        return next(self.prefix.glob("lib/python*/site-packages"))

    def run(self, *command: str | Path, **variables: str) -> None:
        """Runs a command as the image would, with nothing of this environment.

        Args:
          *command: A program of the image, and its arguments.
          **variables: What the Dockerfile does not set, or sets otherwise.

        Raises:
          RuntimeError: It failed; the text ends with what it last said.
        """
        path = f"{self.prefix}/bin:/usr/bin:/bin"
        finished = subprocess.run(
            [str(word) for word in command],
            cwd=self.home,
            env=self._environment | {"PATH": path, "HOME": str(self.home)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if finished.returncode:
            said = "\n".join(finished.stdout.splitlines()[-20:])
            raise RuntimeError(f"{command[0]} returned {finished.returncode}:\n{said}")

    def _make_base(self) -> None:
        python = Path(sys.base_prefix) / "bin" / "python{}.{}".format(*sys.version_info)
        subprocess.run([python, "-m", "venv", self.prefix], check=True)
        # As the Dockerfile does to the base image.
        self.run("python", "-m", "pip", "uninstall", "--yes", "setuptools", "wheel")

    def _copy_context(self) -> None:
        for path in build_context(ROOT):
            (self.context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, self.context / path)

    def _install(self, part: str) -> Path:
        """Runs the Dockerfile's script for a part, in a folder of its own."""
        prefix = self._folder / part
        path = f"{self._folder}/uv/bin:{self.prefix}/bin:/usr/bin:/bin"
        # Where packages come from is this machine's business (index, certificates,
        # caches); what is installed is not. No compiler: the image has none.
        named = {n: v for n, v in os.environ.items() if re.match("PIP_|UV_|.*PROXY", n)}
        named |= {"UV_CACHE_DIR": _cache_of_uv(), "CC": "false", "CXX": "false"}
        subprocess.run(
            ["bash", "tools/install_image.sh", part, str(prefix)],
            cwd=self.context,
            env=named | {"PATH": path, "HOME": str(Path.home())},
            umask=0o022,
            check=True,
        )
        return prefix

    def _lay_over(self, prefix: Path) -> int:
        """Does what `COPY --from=... /opt/... /usr/local` does; returns the bytes."""
        files = [path for path in prefix.rglob("*") if not path.is_dir()]
        for path in files:
            target = self.prefix / path.relative_to(prefix)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        return sum((self.prefix / f.relative_to(prefix)).lstat().st_size for f in files)
