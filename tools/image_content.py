"""Makes what the container image would contain, without a container engine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.dockerfile import Dockerfile, build_context

# Where packages come from is this machine's business; what is installed is not.
_TAKEN_OVER = re.compile("INDEX|FIND_LINKS|CERT|TLS|HOST|PROXY|TIMEOUT|CACHE", re.I)


class Image:
    """What the image would contain, in a folder.

    Attributes:
      context: What `docker build` would be given.
      prefix: The image's /usr/local; a virtual environment, since it needs a Python.
      home: An empty home folder, where everything starts.
      files: What each part of the image put below the prefix, relative to it.
    """

    def __init__(self, root: Path, folder: Path, accelerator: str):
        """Installs the image.

        Args:
          root: The checkout.
          folder: An empty folder, for several GB.
          accelerator: `cpu` or `gpu`, the Dockerfile's build argument.
        """
        self._folder = folder
        self.context = folder / "context"
        self.prefix = folder / "usr-local"
        self.home = folder / "home"
        self.home.mkdir()
        dockerfile = Dockerfile.read(root / "Dockerfile", ACCELERATOR=accelerator)
        self._environment: dict[str, str] = {}
        for stage in dockerfile.lineage():
            self._environment |= stage.environment()
        self._make_base()
        for path in build_context(root):
            (self.context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, self.context / path)
        self._install("uv")
        self.files = {"packages": self._lay_over(self._install("packages"))}
        if accelerator == "gpu":
            self.files["accelerator"] = self._lay_over(self._install("accelerator"))
        self.files["project"] = self._lay_over(self._install("project"))

    @property
    def site_packages(self) -> Path:
        """Where its packages are."""
        return next(self.prefix.glob("lib/python*/site-packages"))

    def size(self, part: str) -> int:
        """Returns what a part takes, in bytes."""
        return sum((self.prefix / file).lstat().st_size for file in self.files[part])

    def run(self, *command: str | Path) -> str:
        """Runs a command as the image would, with nothing of this environment.

        Args:
          *command: A program of the image, and its arguments.

        Returns:
          What it wrote.

        Raises:
          RuntimeError: It failed; the text ends with what it wrote last.
        """
        path = f"{self.prefix}/bin:/usr/bin:/bin"
        finished = subprocess.run(
            [str(word) for word in command],
            cwd=self.home,
            env=self._environment | {"PATH": path, "HOME": str(self.home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if finished.returncode:
            last = "\n".join(finished.stdout.splitlines()[-20:])
            raise RuntimeError(f"{command[0]} returned {finished.returncode}:\n{last}")
        return finished.stdout

    def _make_base(self) -> None:
        """Makes what the Dockerfile's stage `python` is."""
        python = "{}/bin/python{}.{}".format(sys.base_prefix, *sys.version_info)
        subprocess.run([python, "-m", "venv", self.prefix], check=True)
        pip = ("python", "-m", "pip", "--disable-pip-version-check")
        self.run(*pip, "uninstall", "--quiet", "--yes", "setuptools", "wheel")

    def _install(self, part: str) -> Path:
        """Runs the Dockerfile's script for a part, into a folder of its own."""
        prefix = self._folder / part
        environment = {n: v for n, v in os.environ.items() if _TAKEN_OVER.search(n)}
        environment |= {
            "HOME": str(Path.home()),  # for the caches
            "PATH": f"{self._folder}/uv/bin:{self.prefix}/bin:/usr/bin:/bin",
            # The image has no compiler.
            "CC": "false",
            "CXX": "false",
        }
        subprocess.run(
            ["bash", "tools/install_image.sh", part, prefix],
            cwd=self.context,
            env=environment,
            umask=0o022,
            check=True,
        )
        return prefix

    def _lay_over(self, prefix: Path) -> list[Path]:
        """Does what `COPY --from=... PREFIX /usr/local` does; returns the files."""
        files = [path for path in prefix.rglob("*") if not path.is_dir()]
        found = [path.relative_to(prefix) for path in files]
        for path, relative in zip(files, found, strict=True):
            (self.prefix / relative).parent.mkdir(parents=True, exist_ok=True)
            path.replace(self.prefix / relative)
        return found
