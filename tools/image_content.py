"""Installs what the container image would contain, without a container engine."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tools import image_rules

INSTALL_SCRIPT = "tools/install_image.sh"
# Environment variables that set where installers find packages.
_INSTALLERS = re.compile("INDEX|FIND_LINKS|CERT|TLS|HOST|PROXY|TIMEOUT|CACHE", re.I)


def installer_environment() -> dict[str, str]:
    """Returns the variables of this process that installers read."""
    found = {n: v for n, v in os.environ.items() if _INSTALLERS.search(n)}
    return found | {"HOME": str(Path.home())}  # for the caches


class Image:
    """The content of the image in a folder.

    Attributes:
      context: The build context.
      prefix: The image's /usr/local, a virtual environment.
      home: An empty home folder, the working directory of every command.
      files: The files of each part of the image, relative to the prefix.
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
        steps = image_rules.image_steps(image_rules.read_dockerfile(root, accelerator))
        variables = [w for key, v in steps if key == "ENV" for w in shlex.split(v)]
        self._environment = dict(variable.split("=", 1) for variable in variables)
        # The counterpart of the Dockerfile's stage `python`.
        python = "{}/bin/python{}.{}".format(sys.base_prefix, *sys.version_info)
        subprocess.run([python, "-m", "venv", self.prefix], check=True)
        pip = ("python", "-m", "pip", "--disable-pip-version-check")
        self.run(*pip, "uninstall", "--quiet", "--yes", "setuptools", "wheel")
        for path in image_rules.build_context(root):
            (self.context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, self.context / path)
        self._install("uv")
        parts = ["packages", "accelerator", "project", "sbom"]
        if accelerator == "cpu":
            parts.remove("accelerator")
        self.files: dict[str, list[Path]] = {}
        for part in parts:
            # Like `COPY --from=STAGE prefix /usr/local`.
            source = self._install(part)
            files = [path for path in source.rglob("*") if not path.is_dir()]
            self.files[part] = [path.relative_to(source) for path in files]
            for file in self.files[part]:
                (self.prefix / file).parent.mkdir(parents=True, exist_ok=True)
                (source / file).replace(self.prefix / file)

    @property
    def site_packages(self) -> Path:
        """The folder of its packages."""
        return next(self.prefix.glob("lib/python*/site-packages"))

    def run(self, *command: str | Path) -> None:
        """Runs a command with the image's environment only.

        Args:
          *command: A program of the image, and its arguments.

        Raises:
          RuntimeError: The command failed. The message ends with its last output.
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

    def _install(self, part: str) -> Path:
        """Runs the Dockerfile's script for a part; returns its new folder."""
        prefix = self._folder / part
        environment = installer_environment() | {
            "PATH": f"{self._folder}/uv/bin:{self.prefix}/bin:/usr/bin:/bin",
            # The image has no compiler.
            "CC": "false",
            "CXX": "false",
        }
        subprocess.run(
            ["bash", INSTALL_SCRIPT, part, prefix],
            cwd=self.context,
            env=environment,
            umask=0o022,
            check=True,
        )
        return prefix
