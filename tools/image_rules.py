"""What must hold for Dockerfile, .dockerignore and locks before a build."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

from tools.dockerfile import Dockerfile, build_context

SECRET_NAME = re.compile(
    "token|secret|passw|credential|api_?key|private", re.IGNORECASE
)
# Nobody's, but what may well lie in a checkout; none may reach a builder.
DECOYS = (
    ".env",
    ".git/config",
    ".venv/pyvenv.cfg",
    "components/.env",
    "key.json",
    "modules/__pycache__/task.pyc",
    "output/model/weights",
    "pipeline/client.key",
    "pipeline/data/client.pem",
    "sample_data/credentials.json",
    "tests/test_image.py",
)
# KFP's launcher (https://github.com/kubeflow/pipelines/issues/5673) and Beam's boot
# write there, whoever the user is.
WRITTEN_TO = ("/home/pipeline", "/gcs", "/minio", "/s3", "/opt/apache/beam-venv")
ENTRY_POINT = '["/opt/apache/beam/boot"]'
BEAM_IMAGE = "apache/beam_python{}_sdk:{}"
PRINT_PACKAGES = """
import setuptools
from distutils.core import run_setup
print(*run_setup("setup.py", stop_after="init").packages)
"""
PARTS = {"uv", "packages", "accelerator", "project"}


class Stack:
    """The image's stack, which is the newest.

    Attributes:
      name: As in stacks/stacks.txt.
      python: The Python that it prefers, such as `3.13`.
      lock: The path of its lock, relative to the checkout.
      gpu_lock: The path of what it adds for a GPU.
    """

    def __init__(self, root: Path):
        """Reads stacks/stacks.txt.

        Args:
          root: The checkout.
        """
        table = (root / "stacks/stacks.txt").read_text().splitlines()
        newest = next(line for line in table if line and not line.startswith("#"))
        self.name, _, self.python, *_ = newest.split()
        self.lock = f"stacks/{self.name}/requirements.lock"
        self.gpu_lock = f"stacks/{self.name}/gpu.lock"


def read_lock(path: Path, python: str) -> dict[str, str]:
    """Returns the versions that a lock gives a Python, by package."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    found = {}
    for line in re.findall(r"^[a-z0-9].*", path.read_text(), re.MULTILINE):
        requirement = Requirement(line.rstrip("\\ "))
        if requirement.marker is None or requirement.marker.evaluate(environment):
            found[requirement.name] = str(requirement.specifier).removeprefix("==")
    return found


def development_packages(root: Path) -> set[str]:
    """Returns what no pipeline runs.

    Args:
      root: The checkout.

    Returns:
      What requirements.in asks for under `# Development.`, and what the lock has for
      those alone, by its `# via` notes.
    """
    requested = (root / "requirements.in").read_text()
    _, section = requested.lower().split("\n# development.\n")
    asked = set(re.findall(r"^[a-z0-9-]+", section, re.MULTILINE))
    found = set(asked)
    locked = _read_parents(root / Stack(root).lock)
    while more := {
        name
        for name, parents in locked.items()
        if name not in found and parents <= found
    }:
        found |= more
    return found


def _read_parents(path: Path) -> dict[str, set[str]]:
    """Returns by package who asked for it, `-r` among them for requirements.in."""
    found: dict[str, set[str]] = {}
    for line in path.read_text().splitlines():
        if match := re.match(r"([a-z0-9-]+)==", line):
            parents = found.setdefault(match[1], set())
        elif match := re.match(r"    #  ? ?(?:via)? *([a-z0-9-]+)", line):
            parents.add(match[1])
    return found


def user_is_not_root(root: Path) -> Iterator[str]:
    """The image runs as a numeric user, as Kubernetes' runAsNonRoot asks."""
    lineage = Dockerfile.read(root / "Dockerfile").lineage()
    users = [user for stage in lineage for user in stage.all("USER")]
    user = users[-1].split(":")[0] if users else "root"
    if not user.isdecimal() or int(user) == 0:
        yield f"the last USER is {user!r}; it must be a number other than 0"


def bases_are_pinned(root: Path) -> Iterator[str]:
    """Images from elsewhere carry a version; no frontend is fetched."""
    for base in Dockerfile.read(root / "Dockerfile").bases():
        if not re.search(r":\d", base) and "@sha256:" not in base:
            yield f"FROM {base} has no version"
    if re.match(r"#\s*syntax\s*=", (root / "Dockerfile").read_text()):
        yield "`# syntax=` makes every build fetch a frontend"


def versions_agree(root: Path) -> Iterator[str]:
    """The stack is the newest; Beam's boot and all images are of it."""
    dockerfile = Dockerfile.read(root / "Dockerfile")
    stack = Stack(root)
    for lock in (stack.lock, stack.gpu_lock):
        if lock not in dockerfile.sources():
            yield f"{lock}, of the newest stack, is not what is installed"
    beam = read_lock(root / stack.lock, stack.python)["apache-beam"]
    if (stated := dockerfile.arguments["BEAM_VERSION"]) != beam:
        yield f"BEAM_VERSION is {stated}; {stack.lock} has apache-beam {beam}"
    python = dockerfile.arguments["PYTHON_VERSION"]
    if python != stack.python:
        yield f"PYTHON_VERSION is {python}; TFX {stack.name} prefers {stack.python}"
    for base in dockerfile.bases():
        if not re.match(f"(python:|apache/beam_python){re.escape(python)}", base):
            yield f"FROM {base} is not of Python {python}"
    if BEAM_IMAGE.format(python, beam) not in dockerfile.bases():
        yield f"Beam's boot is not from {BEAM_IMAGE.format(python, beam)}"


def no_secrets(root: Path) -> Iterator[str]:
    """No variable or argument invites a secret: each layer's history keeps them."""
    dockerfile = Dockerfile.read(root / "Dockerfile")
    names = set(dockerfile.arguments)
    for stage in dockerfile.stages:
        names |= set(stage.environment())
    for name in sorted(filter(SECRET_NAME.search, names)):
        yield f"{name} looks like a secret: mount it (RUN --mount=type=secret)"


def copies_are_let_in(root: Path) -> Iterator[str]:
    """What is copied exists and is let in; what is let in is copied."""
    dockerfile = Dockerfile.read(root / "Dockerfile")
    for stage in dockerfile.stages:
        for added in stage.all("ADD"):
            yield f"ADD {added}: use COPY, which neither downloads nor unpacks"
    context = build_context(root)
    sources = dockerfile.sources()
    for source in sources:
        if not (root / source).exists():
            yield f"COPY {source}: there is no such file"
        elif not any(_is_below(path, source) for path in context):
            yield f"COPY {source}: .dockerignore keeps it out"
    for path in context:
        if not any(_is_below(path, source) for source in sources):
            yield f"{path}: .dockerignore lets it in, but nothing copies it"


def _is_below(path: str, source: str) -> bool:
    return path == source or path.startswith(f"{source}/")


def packages_are_copied(root: Path) -> Iterator[str]:
    """Every package of setup.py is let in, whole."""
    context = set(build_context(root))
    for package in find_packages(root):
        for file in sorted((root / package.replace(".", "/")).glob("*.py")):
            if (path := str(file.relative_to(root))) not in context:
                yield f"{path} is in setup.py's packages, but not in the build"


def find_packages(root: Path) -> list[str]:
    """Returns the packages that setup.py names, which looks for them where it runs."""
    return subprocess.run(
        [sys.executable, "-c", PRINT_PACKAGES],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()


def context_is_clean(root: Path) -> Iterator[str]:
    """Decoys beside the code do not get into a build."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for path in DECOYS:
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).touch()
        (copy / ".dockerignore").write_text((root / ".dockerignore").read_text())
        for path in build_context(copy):
            yield f"a file {path} would get in: keep it out in .dockerignore"


def runtime_is_prepared(root: Path) -> Iterator[str]:
    """The folders that others write to are there, and Beam's boot starts a worker."""
    lineage = Dockerfile.read(root / "Dockerfile").lineage()
    runs = " ".join(run for stage in lineage for run in stage.all("RUN")).split()
    for folder in WRITTEN_TO:
        if folder not in runs:
            yield f"no RUN makes {folder}, which has to be writable"
    entries = [entry for stage in lineage for entry in stage.all("ENTRYPOINT")]
    if entries[-1:] != [ENTRY_POINT]:
        yield f"ENTRYPOINT is {entries[-1:]}; Beam's workers need {ENTRY_POINT}"


def parts_are_installed(root: Path) -> Iterator[str]:
    """The script that the check runs is what installs each part of the image."""
    dockerfile = Dockerfile.read(root / "Dockerfile", ACCELERATOR="gpu")
    runs = " ".join(run for stage in dockerfile.stages for run in stage.all("RUN"))
    prefixes = dict(re.findall(r"tools/install_image\.sh (\w+) (\S+)", runs))
    for part in sorted(PARTS ^ set(prefixes)):
        yield f"the part {part} is not installed once by tools/install_image.sh"
    copied = {
        source
        for stage in dockerfile.lineage()
        for origin, sources, target in stage.copies()
        if origin and target == "/usr/local"
        for source in sources
    }
    for part in sorted(set(prefixes) - {"uv"}):
        if prefixes[part] not in copied:
            yield f"{prefixes[part]}, the part {part}, is not copied to /usr/local"


RULES: tuple[Callable[[Path], Iterator[str]], ...] = (
    user_is_not_root,
    bases_are_pinned,
    versions_agree,
    no_secrets,
    copies_are_let_in,
    packages_are_copied,
    context_is_clean,
    runtime_is_prepared,
    parts_are_installed,
)
