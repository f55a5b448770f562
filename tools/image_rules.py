"""Rules for the Dockerfile, .dockerignore and the locks, checked before a build.

`make lint` checks the Dockerfile by hadolint's rules. These are rules that it lacks.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from docker.utils import exclude_paths
from dockerfile_parse import DockerfileParser
from dockerfile_parse.parser import image_from
from packaging.requirements import Requirement

# Files that a checkout may contain, and that must not reach a builder.
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
DOCKERFILE = "Dockerfile"
RUNTIME_DOCKERFILE = "deploy/runtime/Dockerfile"
BEAM_IMAGE = "apache/beam_python{}_sdk:{}"
# Prints a line for each of the projects, of which the runtime is one.
PRINT_PACKAGES = """
import setuptools
from distutils.core import run_setup
for script in ("setup.py", "deploy/runtime/setup.py"):
    project = run_setup(script, stop_after="init")
    print(project.get_name(), *project.packages)
"""


@dataclasses.dataclass(frozen=True)
class Stack:
    """The image's stack.

    Attributes:
      name: As in stacks/stacks.txt.
      python: Its preferred Python, such as `3.13`.
    """

    name: str
    python: str

    @property
    def lock(self) -> str:
        """The path of its lock, relative to the checkout."""
        return f"stacks/{self.name}/requirements.lock"

    @property
    def gpu_lock(self) -> str:
        """The path of the lock of NVIDIA's libraries, relative to the checkout."""
        return f"stacks/{self.name}/gpu.lock"


def newest_stack(root: Path) -> Stack:
    """Returns the first stack of a checkout's stacks/stacks.txt."""
    table = (root / "stacks/stacks.txt").read_text().splitlines()
    newest = next(line for line in table if line and not line.startswith("#"))
    name, _, python, *_ = newest.split()
    return Stack(name, python)


def read_lock(path: Path, python: str) -> dict[str, str]:
    """Returns the versions that a lock has for a Python, by package."""
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    versions = {}
    for line in re.findall(r"^[a-z0-9].*", path.read_text(), re.MULTILINE):
        requirement = Requirement(line.rstrip("\\ "))
        if requirement.marker is None or requirement.marker.evaluate(environment):
            versions[requirement.name] = str(requirement.specifier).removeprefix("==")
    return versions


def read_dockerfile(
    root: Path, accelerator: str = "cpu", dockerfile: str = DOCKERFILE
) -> DockerfileParser:
    """Reads a checkout's Dockerfile with the build argument ACCELERATOR."""
    path = str(root / dockerfile)
    return DockerfileParser(path, build_args={"ACCELERATOR": accelerator})


def image_steps(dockerfile: DockerfileParser) -> list[tuple[str, str]]:
    """Returns the instructions of the stages that the final image is built on.

    Args:
      dockerfile: With several stages, the last of which is the image.

    Returns:
      Keyword and value of each instruction but FROM, in order.
    """
    stages: dict[str | None, list[tuple[str, str]]] = {}
    bases = iter(dockerfile.parent_images)
    name = None
    for step in dockerfile.structure:
        if step["instruction"] == "FROM":
            _, name = image_from(step["value"])
            stages[name] = list(stages.get(next(bases), []))
        elif stages:
            stages[name].append((step["instruction"], step["value"]))
    return stages[name]


def external_images(dockerfile: DockerfileParser) -> list[str]:
    """Returns the base images that are not stages of the Dockerfile."""
    steps = dockerfile.structure
    values = [step["value"] for step in steps if step["instruction"] == "FROM"]
    stages = {image_from(value)[1] for value in values}
    return [image for image in dockerfile.parent_images if image not in stages]


def copied_paths(dockerfile: DockerfileParser) -> list[str]:
    """Returns the paths that COPY takes from the build context."""
    paths = []
    for step in dockerfile.structure:
        words = shlex.split(step["value"]) if step["instruction"] == "COPY" else []
        if not any(word.startswith("--from=") for word in words):
            paths += [word for word in words[:-1] if not word.startswith("--")]
    return paths


def ignore_file(dockerfile: str = DOCKERFILE) -> str:
    """Returns the path of the .dockerignore that a build with a Dockerfile reads."""
    return ".dockerignore" if dockerfile == DOCKERFILE else f"{dockerfile}.dockerignore"


def build_context(root: Path, dockerfile: str = DOCKERFILE) -> list[str]:
    """Returns the files that .dockerignore lets into a build, relative to `root`."""
    lines = (root / ignore_file(dockerfile)).read_text().splitlines()
    patterns = [line for line in lines if line.strip() and not line.startswith("#")]
    # The library adds the Dockerfile and .dockerignore, as every builder does. The
    # Dockerfile copies neither.
    allowed = exclude_paths(str(root), patterns) - {"Dockerfile", ".dockerignore"}
    return sorted(path for path in allowed if (root / path).is_file())


def find_projects(root: Path) -> dict[str, list[str]]:
    """Returns the packages of each setup.py of a checkout, by the project's name."""
    output = subprocess.run(
        [sys.executable, "-c", PRINT_PACKAGES],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {name: packages for name, *packages in map(str.split, output.splitlines())}


def find_packages(root: Path) -> list[str]:
    """Returns the packages of all projects of a checkout."""
    return [name for packages in find_projects(root).values() for name in packages]


def no_frontend_is_fetched(root: Path, dockerfile: str = DOCKERFILE) -> Iterator[str]:
    """No build fetches a Dockerfile frontend."""
    if re.match(r"#\s*syntax\s*=", (root / dockerfile).read_text()):
        yield "`# syntax=` makes every build fetch a frontend"


def versions_agree(root: Path) -> Iterator[str]:
    """The image has the newest stack, with its Python and its version of Beam."""
    dockerfile = read_dockerfile(root)
    stack = newest_stack(root)
    for lock in (stack.lock, stack.gpu_lock):
        if lock not in copied_paths(dockerfile):
            yield f"{lock}, of the newest stack, is not installed"
    images = external_images(dockerfile)
    for image in images:
        if not re.match(
            f"(python:|apache/beam_python){re.escape(stack.python)}", image
        ):
            yield f"FROM {image}: TFX {stack.name} prefers Python {stack.python}"
    beam = read_lock(root / stack.lock, stack.python)["apache-beam"]
    if (image := BEAM_IMAGE.format(stack.python, beam)) not in images:
        yield f"no FROM {image}; {stack.lock} has apache-beam {beam}"


def context_is_what_is_copied(
    root: Path, dockerfile: str = DOCKERFILE
) -> Iterator[str]:
    """.dockerignore lets in what COPY takes, and nothing else."""
    context = build_context(root, dockerfile)
    sources = copied_paths(read_dockerfile(root, dockerfile=dockerfile))
    for source in sources:
        if not any(root.glob(source)):
            yield f"COPY {source}: there is no such file"
        elif not any(_is_below(path, source) for path in context):
            yield f"COPY {source}: .dockerignore excludes it"
    for path in context:
        if not any(_is_below(path, source) for source in sources):
            yield f"{path}: .dockerignore lets it in, but no COPY takes it"


def _is_below(path: str, source: str) -> bool:
    return fnmatch.fnmatch(path, source) or path.startswith(f"{source}/")


def packages_are_in_context(root: Path) -> Iterator[str]:
    """.dockerignore lets in all modules of both projects."""
    context = set(build_context(root))
    for package in find_packages(root):
        for file in sorted((root / package.replace(".", "/")).glob("*.py")):
            if (path := str(file.relative_to(root))) not in context:
                yield f"{path} is in a package, but .dockerignore excludes it"


def context_is_clean(root: Path, dockerfile: str = DOCKERFILE) -> Iterator[str]:
    """.dockerignore excludes secrets, caches and outputs next to the code."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for path in DECOYS:
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).touch()
        ignored = (root / ignore_file(dockerfile)).read_text()
        (copy / ".dockerignore").write_text(ignored)
        for path in build_context(copy):
            yield f".dockerignore lets in a file like {path}"


def runtime_has_the_lock_of_its_python(root: Path) -> Iterator[str]:
    """The runtime's image has one Python, and the lock for it."""
    dockerfile = read_dockerfile(root, dockerfile=RUNTIME_DOCKERFILE)
    (lock,) = (path for path in copied_paths(dockerfile) if path.endswith(".lock"))
    python = Path(lock).stem.removeprefix("py")
    for image in external_images(dockerfile):
        if not image.startswith(f"python:{python}-slim-"):
            yield f"FROM {image}: the lock is {lock}"


RUNTIME_RULES: tuple[Callable[[Path], Iterator[str]], ...] = (
    *(
        functools.wraps(rule)(functools.partial(rule, dockerfile=RUNTIME_DOCKERFILE))
        for rule in (
            no_frontend_is_fetched,
            context_is_what_is_copied,
            context_is_clean,
        )
    ),
    runtime_has_the_lock_of_its_python,
)
RULES: tuple[Callable[[Path], Iterator[str]], ...] = (
    no_frontend_is_fetched,
    versions_agree,
    context_is_what_is_copied,
    packages_are_in_context,
    context_is_clean,
)
