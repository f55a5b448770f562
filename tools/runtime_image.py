"""Assembles the root file system of the runtime's image, and starts it.

Instead of the base image's Python it has a copy of this machine's, with the shared
libraries that it and the packages load, and no other program.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from portable.folder import read_description
from tools import image_rules
from tools.image_content import INSTALL_SCRIPT, installer_environment

PORT = "8501"  # of the Dockerfile
START_SECONDS = 60
_DESCRIBE_PYTHON = """
import os, sys, sysconfig
paths = (sys.executable, os.__file__, sysconfig.get_config_var("LIBDIR"))
print(*map(os.path.realpath, paths), sysconfig.get_config_var("INSTSONAME"), sep="\\n")
"""
_NOT_IN_THE_IMAGE = ("*-packages", "__pycache__", "config-*", "idlelib", "test")
# Mounts are private to it. Arguments: root file system, model, user, command.
_START = """
set -e
mount --bind "$1" "$1"
mount --options remount,bind,ro "$1"
mount --bind "$2" "$1/models"
mount --options remount,bind,ro "$1/models"
mount --rbind /dev "$1/dev"
mount --rbind /proc "$1/proc"
exec chroot --userspec="$3" "$1" "${@:4}"
"""


def copy_checkout(root: Path, target: Path) -> Path:
    """Copies what the image is built from, and builds the wheel; returns `target`."""
    folder = Path(image_rules.RUNTIME_DOCKERFILE).parent
    shutil.copytree(root / folder, target / folder)
    (target / INSTALL_SCRIPT).parent.mkdir()
    shutil.copy(root / INSTALL_SCRIPT, target / INSTALL_SCRIPT)
    build = [sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps"]
    options = ["--no-build-isolation", "--wheel-dir", str(target / "dist")]
    subprocess.run([*build, *options, str(root / folder)], check=True)
    return target


class RuntimeImage:
    """The root file system of the runtime's image.

    Attributes:
      context: The build context.
      lock: The image's lock.
      version: The version of its Python, such as `3.13`.
      root: The root file system.
      prefix: Its /usr/local.
      files: The files of each part of the image, relative to the prefix.
      steps: The Dockerfile's instructions that the image is built on.
    """

    def __init__(self, checkout: Path, folder: Path, python: str | None = None):
        """Assembles the image.

        Args:
          checkout: What `copy_checkout` returned.
          folder: An existing folder.
          python: The program that is copied. Default: on the PATH, by its version.

        Raises:
          RuntimeError: There is no such Python, or it is of another version.
        """
        dockerfile = image_rules.RUNTIME_DOCKERFILE
        self.context = folder / "context"
        for path in image_rules.build_context(checkout, dockerfile):
            (self.context / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / path, self.context / path)
        (self.lock,) = self.context.rglob("*.lock")
        self.version = self.lock.stem.removeprefix("py")
        self.root = folder / "root"
        self.prefix = self.root / "usr" / "local"
        self.steps = image_rules.image_steps(
            image_rules.read_dockerfile(checkout, dockerfile=dockerfile)
        )
        for name in ("bin", "lib"):
            (self.prefix / name).mkdir(parents=True)
        for name in ("dev", "models", "proc"):
            (self.root / name).mkdir()
        self._copy_python(python or f"python{self.version}")
        self.files: dict[str, list[Path]] = {}
        for part in ("runtime-packages", "runtime"):
            self._install(part, folder / part)
        self._copy_libraries()

    @property
    def site_packages(self) -> Path:
        """The folder of its packages."""
        return self.prefix / "lib" / f"python{self.version}" / "site-packages"

    def command(self, keyword: str) -> list[str]:
        """Returns the words of ENTRYPOINT, CMD or HEALTHCHECK."""
        (value,) = (value for key, value in self.steps if key == keyword)
        return json.loads(value[value.index("[") :])

    def start(self, model: Path, command: list[str], port: int) -> subprocess.Popen:
        """Starts a command as the image's user, with a read-only file system.

        Args:
          model: The folder that is mounted at /models; its files are public.
          command: The words of the command.
          port: Replaces the Dockerfile's.
        """
        (user,) = (value for key, value in self.steps if key == "USER")
        variables = [w for key, v in self.steps if key == "ENV" for w in shlex.split(v)]
        words = [word.replace(PORT, str(port)) for word in command]
        return subprocess.Popen(
            [
                *("unshare", "--mount", "--propagation", "private"),
                *("bash", "-c", _START, "bash", str(self.root), str(model), user),
                *words,
            ],
            env={
                "PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin",
                # The base image has these libraries in the linker's cache.
                "LD_LIBRARY_PATH": "/usr/local/lib",
                **dict(variable.split("=", 1) for variable in variables),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _copy_python(self, python: str) -> None:
        try:
            described = subprocess.run(
                [python, "-c", _DESCRIBE_PYTHON],
                capture_output=True,
                check=True,
                text=True,
            ).stdout.splitlines()
        except (OSError, subprocess.CalledProcessError) as error:
            raise RuntimeError(
                f"{python} does not run: name one with --python"
            ) from error
        program, module, libraries, shared = described
        library = Path(module).parent
        name = f"python{self.version}"
        if library.name != name:
            raise RuntimeError(f"{python} is {library.name}, the image's is {name}")
        shutil.copy(program, self.prefix / "bin" / name)
        for link in ("python", "python3"):
            (self.prefix / "bin" / link).symlink_to(name)
        if (path := Path(libraries) / shared).suffix != ".a":
            shutil.copy(path, self.prefix / "lib")
        ignored = shutil.ignore_patterns(*_NOT_IN_THE_IMAGE)
        shutil.copytree(library, self.prefix / "lib" / name, ignore=ignored)
        pip = [str(self.prefix / "bin" / "python"), "-m", "ensurepip"]
        environment = self._environment()
        subprocess.run(pip, env=environment, capture_output=True, check=True)

    def _environment(self) -> dict[str, str]:
        return {
            **installer_environment(),
            "LD_LIBRARY_PATH": str(self.prefix / "lib"),
            "PATH": f"{self.prefix}/bin:/usr/bin:/bin",
        }

    def _install(self, part: str, source: Path) -> None:
        """Runs the Dockerfile's script for a part, and copies its files."""
        subprocess.run(
            ["bash", INSTALL_SCRIPT, part, source],
            cwd=self.context,
            env=self._environment(),
            umask=0o022,
            check=True,
        )
        files = [path for path in source.rglob("*") if not path.is_dir()]
        self.files[part] = [path.relative_to(source) for path in files]
        shutil.copytree(source, self.prefix, dirs_exist_ok=True)
        for file in self.files[part]:
            if file.parent.name == "bin":
                path = self.prefix / file
                # Pip names the Python that runs it.
                path.write_bytes(path.read_bytes().replace(bytes(self.root), b""))

    def _copy_libraries(self) -> None:
        """Copies the libraries of the system that programs and packages load."""
        binaries = [self.prefix / "bin" / "python", *self.prefix.rglob("*.so*")]
        listed = subprocess.run(
            ["ldd", *map(str, binaries)],
            env=self._environment(),
            capture_output=True,
            check=False,  # some need a library that is loaded before them
            text=True,
        ).stdout
        for word in set(listed.split()):
            path = Path(word)
            if not word.startswith("/") or word.endswith(":") or not path.is_file():
                continue
            if path.is_relative_to(self.root) or path.name.startswith("libpython"):
                continue
            target = self.root / path.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


@contextlib.contextmanager
def _running(image: RuntimeImage, model: Path) -> Iterator[tuple[int, int]]:
    """Starts the image as it is, until it is ready; yields its process and port."""
    models = image.root.parent / "models"
    shutil.copytree(model, models, dirs_exist_ok=True)
    for path in (models, *models.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*image.command("ENTRYPOINT"), *image.command("CMD")]
    process = image.start(models, command, port)
    try:
        end = time.monotonic() + START_SECONDS
        while not _is_ready(port):
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise RuntimeError(f"it does not start:\n{process.communicate()[0]}")
            time.sleep(0.05)
        yield process.pid, port
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=START_SECONDS)
        if process.returncode:
            raise RuntimeError(f"SIGTERM: status {process.returncode}:\n{output}")
    finally:
        process.kill()
        process.communicate()


def _is_ready(port: int) -> bool:
    try:
        return b"ready" in _read(port, "readyz")
    except OSError:
        return False


def _read(port: int, path: str, content: object = None) -> bytes:
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/{path}", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=START_SECONDS) as response:
        return response.read()


def serves_without_rights(image: RuntimeImage, model: Path) -> Iterator[str]:
    """The image predicts as a user without rights, and its file system is read-only."""
    columns = read_description(str(model)).text_columns
    instances = [dict.fromkeys(columns, "A text.")]
    with _running(image, model) as (process, port):
        if os.stat(f"/proc/{process}").st_uid == 0:
            yield "it runs as root"
        status = Path(f"/proc/{process}/status").read_text().split("CapEff:")[1]
        if int(status.split()[0], 16):
            yield f"it has capabilities: {status.split()[0]}"
        for folder in ("", "models", "usr/local"):
            try:
                Path(f"/proc/{process}/root", folder, "written").touch()
                yield f"/{folder} is writable"
            except OSError as error:
                if error.errno != errno.EROFS:
                    raise
        reply = _read(port, "v1/models/models:predict", {"instances": instances})
        if len(json.loads(reply)["predictions"]) != len(instances):
            yield f"it predicts {reply.decode()}"


def health_check_finds_the_server(image: RuntimeImage, model: Path) -> Iterator[str]:
    """HEALTHCHECK passes while the image serves, and fails when it has ended."""
    command = image.command("HEALTHCHECK")
    models = image.root.parent / "models"
    with _running(image, model) as (_, port):
        check = image.start(models, command, port)
        output, _ = check.communicate()
        if check.returncode:
            yield f"it fails with status {check.returncode}:\n{output}"
    check = image.start(models, command, port)
    check.communicate()
    if not check.returncode:
        yield "it passes without a server"
