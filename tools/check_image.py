"""Checks a container image without a container engine: `make check-image`.

Checks the Dockerfile by rules, then installs the image's content in a temporary folder
with the Dockerfile's own script, and runs there what a cluster runs. Prints a line for
each check. The exit status is 1 if one fails.

With `--runtime DIR` it is the runtime's image, which serves the exported model DIR.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from pipeline import entrypoint
from pipeline.config.paths import REPOSITORY as ROOT
from tools import image_rules, runtime_image
from tools.image_content import INSTALL_SCRIPT, Image

Content = Image | runtime_image.RuntimeImage

LOAD = "import ctypes, sys; [ctypes.CDLL(path) for path in sys.argv[1:]]"
NVIDIA_LIBRARIES = 12
SHOWN_PROBLEMS = 20


def same_python() -> Iterator[str]:
    """This Python has the version of the image's Python."""
    stack = image_rules.newest_stack(ROOT)
    if (python := "{}.{}".format(*sys.version_info)) != stack.python:
        yield (
            f"this is Python {python}, the image's is {stack.python}: run make "
            f"check-image STACK={stack.name} on a machine that runs it (docs/stacks.md)"
        )


def packages_are_the_locks(image: Image) -> Iterator[str]:
    """The installed packages are the lock's, without the development tools."""
    stack = image_rules.newest_stack(ROOT)
    locked = image_rules.read_lock(ROOT / stack.lock, stack.python)
    for name in development_packages():
        locked.pop(name, None)
    if "accelerator" in image.files:
        locked |= image_rules.read_lock(ROOT / stack.gpu_lock, stack.python)
    return compare_packages(image, locked)


def compare_packages(image: Content, locked: dict[str, str]) -> Iterator[str]:
    """Yields differences between the installed packages and those of a lock."""
    installed = {
        str(canonicalize_name(distribution.name)): distribution.version
        for distribution in _distributions(image)
    }
    projects = image_rules.find_projects(ROOT).keys()
    for name in sorted(installed.keys() - locked.keys() - projects - {"pip"}):
        yield f"{name} {installed[name]} is not a locked package of the image"
    for name in sorted(locked):
        if name not in installed:
            yield f"{name} is missing"
        elif installed[name] != locked[name]:
            yield f"{name} is {installed[name]}, but the lock has {locked[name]}"


def development_packages() -> set[str]:
    """Returns the packages that `INSTALL_SCRIPT` leaves out."""
    script = (ROOT / INSTALL_SCRIPT).read_text().replace("\\\n", "")
    (names,) = re.findall('^development="(.*)"$', script, re.MULTILINE)
    return set(names.split())


def files_have_an_owner(image: Content) -> Iterator[str]:
    """Every file belongs to a package, and every user may read it."""
    owned = {
        (image.site_packages / file).resolve().relative_to(image.prefix.resolve())
        for distribution in _distributions(image)
        for file in distribution.files or []
    }
    for part, files in image.files.items():
        for file in files:
            if part != "sbom" and file not in owned and file.suffix != ".pyc":
                yield f"{file} belongs to no package"
            if not (image.prefix / file).stat().st_mode & 0o004:
                yield f"{file} is not readable for every user"


def sbom_lists_the_packages(image: Image) -> Iterator[str]:
    """The SBOM has every installed package with its version."""
    (path,) = image.files["sbom"]
    content = json.loads((image.prefix / path).read_text())
    listed = {
        (str(canonicalize_name(component["name"])), component["version"])
        for component in content["components"]
    }
    for distribution in _distributions(image):
        name = str(canonicalize_name(distribution.name))
        if (name, distribution.version) not in listed:
            yield f"{name} {distribution.version} is missing"


def project_is_whole(image: Image) -> Iterator[str]:
    """The project's files are the modules of its packages, and their data."""
    base = image.site_packages.relative_to(image.prefix)
    installed = {
        str(file.relative_to(base))
        for file in image.files["project"]
        if file.is_relative_to(base) and file.suffix != ".pyc"
    }
    modules = {
        str(file.relative_to(ROOT))
        for package in image_rules.find_packages(ROOT)
        for file in (ROOT / package.replace(".", "/")).glob("*.py")
    }
    for file in sorted(modules - installed):
        yield f"{file} is missing"
    projects = image_rules.find_projects(ROOT)
    information = tuple(f"{name.replace('-', '_')}-" for name in projects)
    for file in sorted(installed - set(image_rules.build_context(image.context))):
        if not file.startswith(information):
            yield f"{file} is not part of the project"


def run_probe(image: Image, folder: Path) -> dict[str, list[str]]:
    """Runs tools/image_probe.py in the image's Python; returns problems by check."""
    script, output = folder / "probe.py", folder / "problems.json"
    script.write_text((ROOT / "tools/image_probe.py").read_text())
    try:
        image.run("python", script, output, folder, *image_rules.find_packages(ROOT))
    except RuntimeError as error:
        return {"the project runs in the image's Python": [str(error)]}
    return json.loads(output.read_text())


def component_runs(image: Image, folder: Path) -> Iterator[str]:
    """DataGate runs by the command line of a compiled pipeline."""
    output = folder / "run" / "executor_output.json"
    inputs = {
        "examples": "tfx.Examples",
        "schema": "tfx.Schema",
        "anomalies": "tfx.ExampleAnomalies",
        "statistics": "tfx.ExampleStatistics",
    }
    run = {
        "pipeline": "image",
        "task": {"input": "tokenized"},
        "gate_split": "train",
        "packing": {"max_seq_length": 8},
    }
    settings = {
        "run": run,
        **{key: {} for key in ("limits", "patterns", "spans", "card")},
        **dict.fromkeys(("vocab_file", "vocab_fingerprint", "profiles"), ""),
    }
    parameters = {
        "settings": json.dumps(settings),
        "thresholds": "{}",
        **dict.fromkeys(("source", "fingerprint"), ""),
    }
    invocation = {
        "inputs": {
            "artifacts": {
                key: _artifact(name, folder / key, split_names='["train"]')
                for key, name in inputs.items()
            },
            "parameterValues": parameters,
        },
        "outputs": {
            "artifacts": {
                "verdict": _artifact("components.DataVerdict", folder / "verdict")
            },
            "outputFile": str(output),
        },
    }
    string = {"parameterType": "STRING"}
    specification = {"parameters": dict.fromkeys(parameters, string)}
    (folder / "verdict").mkdir()
    image.run(
        *("python", "-m", entrypoint.__name__, entrypoint.EXECUTOR),
        "components.data_gate.component.DataGate_Executor",
        *(entrypoint.MESSAGE, json.dumps(invocation)),
        *(entrypoint.INPUTS_SPEC, json.dumps(specification)),
    )
    verdict = json.loads((folder / "verdict/verdict.json").read_text())
    if verdict["notes"] or verdict["warnings"]:
        yield "DataGate reports anomalies, but the data has none"
    if "verdict" not in json.loads(output.read_text())["artifacts"]:
        yield f"{output.name} has no verdict"


def _artifact(schema: str, path: Path, **properties: str) -> dict:
    artifact = {
        "name": path.name,
        "uri": str(path),
        "type": {"instanceSchema": f"title: {schema}\ntype: object"},
        "metadata": properties,
    }
    return {"artifacts": [artifact]}


def cuda_libraries_load(image: Image) -> Iterator[str]:
    """NVIDIA's libraries load, without a driver."""
    libraries = [
        image.prefix / file
        for file in image.files["accelerator"]
        if re.search(r"/lib/lib[^/]+\.so\.", str(file))
    ]
    image.run("python", "-c", LOAD, *libraries)
    if len(libraries) < NVIDIA_LIBRARIES:
        yield f"there are {len(libraries)} libraries, expected {NVIDIA_LIBRARIES}"


def _distributions(image: Content) -> list[metadata.Distribution]:
    return list(metadata.distributions(path=[str(image.site_packages)]))


def passes(check: Callable[..., Iterable[str]], *arguments: object) -> bool:
    """Runs a check, prints its result, and returns whether it found no problem."""
    try:
        problems = list(check(*arguments))
    except RuntimeError as error:
        problems = [str(error)]
    return report((check.__doc__ or "").rstrip("."), problems)


def report(name: str, problems: list[str]) -> bool:
    """Prints the result of a check, and returns whether there was no problem."""
    print(f"{'FAIL' if problems else 'ok  '}  {name}", flush=True)
    for problem in problems[:SHOWN_PROBLEMS]:
        print(f"        {problem}", flush=True)
    return not problems


def check_content(folder: Path, accelerator: str) -> list[bool]:
    """Installs the image's content and checks it; returns a result for each check."""
    print("      installing the image's content", flush=True)
    image = Image(ROOT, folder, accelerator)
    checks = [
        *(packages_are_the_locks, files_have_an_owner, project_is_whole),
        sbom_lists_the_packages,
    ]
    if accelerator == "gpu":
        checks.append(cuda_libraries_load)
    results = [passes(check, image) for check in checks]
    results += [report(*result) for result in run_probe(image, folder).items()]
    results.append(passes(component_runs, image, folder))
    for part, files in image.files.items():
        size = sum((image.prefix / file).lstat().st_size for file in files)
        print(f"      {part}: {size / 1e6:.1f} MB in {len(files)} files")
    return results


def check_runtime(image: runtime_image.RuntimeImage, model: Path) -> list[bool]:
    """Checks the runtime's image, starts it and calls it.

    Args:
      image: The image.
      model: An exported model, for /models.

    Returns:
      A result for each check.
    """
    return [
        passes(runtime_packages_are_the_locks, image),
        passes(files_have_an_owner, image),
        passes(runtime_image.serves_without_rights, image, model),
        passes(runtime_image.health_check_finds_the_server, image, model),
    ]


def runtime_packages_are_the_locks(image: runtime_image.RuntimeImage) -> Iterator[str]:
    """The installed packages are the lock's, and the runtime."""
    return compare_packages(image, image_rules.read_lock(image.lock, image.version))


def main() -> int:
    """Runs all checks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="check-image")
    parser.add_argument("--accelerator", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument(
        "--runtime",
        type=Path,
        metavar="DIR",
        help="check the runtime's image instead, which serves an exported model",
    )
    parser.add_argument("--python", help="of the runtime's image: pythonX.Y")
    arguments = parser.parse_args()
    if arguments.runtime:
        return _summarize(_build_runtime(arguments.runtime, arguments.python))
    results = [passes(rule, ROOT) for rule in image_rules.RULES]
    results.append(passes(same_python))
    if all(results):  # otherwise it would install another image
        with tempfile.TemporaryDirectory(prefix="image-") as name:
            results += check_content(Path(name), arguments.accelerator)
    return _summarize(results)


def _build_runtime(model: Path, python: str | None) -> list[bool]:
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        folder = Path(name)
        checkout = runtime_image.copy_checkout(ROOT, folder / "checkout")
        results = [passes(rule, checkout) for rule in image_rules.RUNTIME_RULES]
        if all(results):
            print("      installing the image's content", flush=True)
            try:
                image = runtime_image.RuntimeImage(checkout, folder, python)
            except RuntimeError as error:
                return [*results, report("The image's Python is here", [str(error)])]
            results += check_runtime(image, model)
    return results


def _summarize(results: list[bool]) -> int:
    failed = results.count(False)
    print(f"check-image: {failed} of {len(results)} checks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
