"""The two wheels of this tree, built by setuptools as pip and uv build them."""

import subprocess
import sys
import zipfile
from pathlib import Path

from pipeline.config.paths import REPOSITORY

FULL, RUNTIME = REPOSITORY, REPOSITORY / "deploy" / "runtime"
BUILD = "import sys; from setuptools import build_meta; build_meta.{}(sys.argv[1])"


def start_build(project, output, hook="build_wheel"):
    """Starts the build of a project into an empty folder; returns its process."""
    output.mkdir(parents=True)
    return subprocess.Popen(
        [sys.executable, "-c", BUILD.format(hook), output],
        cwd=project,
        stdout=subprocess.DEVNULL,
    )


def build(output, hook="build_wheel"):
    """Builds both wheels at the same time; returns their paths, the runtime's last."""
    folders = {output / "full": FULL, output / "runtime": RUNTIME}
    builds = [start_build(project, path, hook) for path, project in folders.items()]
    assert [process.wait() for process in builds] == [0, 0]
    return [next(path.glob("*.whl")) for path in folders]


def files(wheel: Path) -> set[str]:
    """Returns the names of a wheel's files, without those of its metadata."""
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if ".dist-info/" not in name}


def metadata(wheel: Path, name: str) -> str:
    """Returns the text of one of the files of a wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (n for n in archive.namelist() if n.endswith(f".dist-info/{name}"))
        return archive.read(path).decode()
