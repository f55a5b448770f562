"""Checks the container image without a container engine: `make check-image`.

Reads the Dockerfile by rules, then installs what the image would contain in a temporary
folder, by the script that the Dockerfile runs, and starts there what a cluster starts.
Prints a line for each check; exit status 1 tells that something is wrong.
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

from tools import image_rules
from tools.image_content import Image

ROOT = Path(__file__).resolve().parent.parent
PROJECT = "bert-fine-tuning-pipeline"
UNWANTED = re.compile(
    r"(^|/)(tests?/.*|\.git.*|\.env.*|\.netrc|\.pypirc|pip\.conf|id_(rsa|ed25519).*"
    r"|.*credentials.*\.json|.*\.(key|pem|p12|kubeconfig))$"
)
LOAD = "import ctypes, sys; [ctypes.CDLL(path) for path in sys.argv[1:]]"
EXECUTOR = "components.data_gate.component.DataGate_Executor"


def same_python() -> Iterator[str]:
    """This Python, which the image's content is made with, is the image's."""
    stack = image_rules.Stack(ROOT)
    if (python := "{}.{}".format(*sys.version_info)) != stack.python:
        yield (
            f"this is Python {python}, the image's is {stack.python}: make check-image "
            f"STACK={stack.name}, on a machine that runs it (docs/stacks.md)"
        )


def packages_are_the_locks(image: Image) -> Iterator[str]:
    """The lock's packages are there in its versions, and no other."""
    stack = image_rules.Stack(ROOT)
    wanted = image_rules.read_lock(ROOT / stack.lock, stack.python)
    if "accelerator" in image.files:
        wanted |= image_rules.read_lock(ROOT / stack.gpu_lock, stack.python)
    found = {
        str(canonicalize_name(distribution.name)): distribution.version
        for distribution in _distributions(image)
    }
    for name in sorted(found.keys() - wanted.keys() - {PROJECT, "pip"}):
        yield f"{name} {found[name]} is in no lock"
    for name in sorted(found.keys() & wanted.keys()):
        if found[name] != wanted[name]:
            yield f"{name} is {found[name]}, locked is {wanted[name]}"
    development = image_rules.development_packages(ROOT)
    for name in sorted(wanted.keys() - found.keys() - development):
        yield f"{name} is missing"
    for name in sorted(found.keys() & development):
        yield f"{name} is for development only: name it in tools/install_image.sh"


def files_have_an_owner(image: Image) -> Iterator[str]:
    """Every file came with a package, and any user may read it."""
    owned = {
        (image.site_packages / file).resolve().relative_to(image.prefix.resolve())
        for distribution in _distributions(image)
        for file in distribution.files or []
    }
    for files in image.files.values():
        for file in files:
            if file not in owned and file.suffix != ".pyc":
                yield f"{file} belongs to no package"
            if not (image.prefix / file).stat().st_mode & 0o004:
                yield f"{file} is not for every user to read"


def project_is_whole(image: Image) -> Iterator[str]:
    """The project is the wheel of setup.py's packages, and nothing beside them."""
    packages = image_rules.find_packages(ROOT)
    base = image.site_packages.relative_to(image.prefix)
    installed = {
        str(f.relative_to(base)) for f in _within(image.files["project"], base)
    }
    wanted = {
        str(file.relative_to(ROOT))
        for package in packages
        for file in (ROOT / package.replace(".", "/")).glob("*.py")
    }
    for file in sorted(wanted - installed):
        yield f"{file} is missing"
    tops = {package.split(".")[0] for package in packages}
    for file in sorted(installed - wanted):
        if not re.match(rf"({'|'.join(tops)})/|bert_fine_tuning_pipeline-", file):
            yield f"{file} is no part of the project"
        elif UNWANTED.search(file):
            yield f"{file} must not be in an image"


def probe(image: Image, folder: Path) -> dict[str, list[str]]:
    """Runs a copy of tools/image_probe.py there.

    Args:
      image: The image.
      folder: Where the probe leaves what `component_runs` needs.

    Returns:
      The problems by check.
    """
    script, output = folder / "probe.py", folder / "problems.json"
    script.write_text((ROOT / "tools" / "image_probe.py").read_text())
    try:
        image.run("python", script, output, folder, *image_rules.find_packages(ROOT))
    except RuntimeError as error:
        return {"the project runs in the image's Python": [str(error)]}
    return json.loads(output.read_text())


def component_runs(image: Image, folder: Path) -> Iterator[str]:
    """DataGate runs by the command that a compiled pipeline gives its containers."""
    output = folder / "run" / "executor_output.json"
    types = {
        "examples": "tfx.Examples",
        "schema": "tfx.Schema",
        "anomalies": "tfx.ExampleAnomalies",
    }
    # Open-source Kubeflow names no type of an input; the inputs spec does.
    invocation = {
        "inputs": {
            "artifacts": {
                key: _artifact("", folder / key, split_names='["train"]')
                for key in types
            },
            "parameterValues": {"id_column": "id", "fingerprint": ""},
        },
        "outputs": {
            "artifacts": {
                "verdict": _artifact(
                    _schema("components.DataVerdict"), folder / "verdict"
                )
            },
            "outputFile": str(output),
        },
    }
    string = {"parameterType": "STRING"}
    inputs_spec = {
        "artifacts": {
            key: {"artifactType": {"instanceSchema": _schema(title)}}
            for key, title in types.items()
        },
        "parameters": {"id_column": string, "fingerprint": string},
    }
    (folder / "verdict").mkdir()
    image.run(
        *("python", "-m", "pipeline.entrypoint"),
        *("--executor_class_path", EXECUTOR),
        *("--json_serialized_invocation_args", json.dumps(invocation)),
        *("--json_serialized_inputs_spec_args", json.dumps(inputs_spec)),
    )
    if (folder / "verdict" / "verdict.json").read_text() != "[]":
        yield "DataGate found anomalies where there are none"
    if "verdict" not in json.loads(output.read_text())["artifacts"]:
        yield f"{output.name} does not name the verdict"


def cuda_libraries_load(image: Image) -> Iterator[str]:
    """Each of NVIDIA's libraries finds the others that it needs, without a driver."""
    libraries = [
        image.prefix / file
        for file in image.files["accelerator"]
        if re.search(r"/lib/lib[^/]+\.so\.", str(file))
    ]
    image.run("python", "-c", LOAD, *libraries)
    if len(libraries) < 12:
        yield f"there are only {len(libraries)} libraries"


def _artifact(schema: str, path: Path, **properties: str) -> dict:
    artifact = {
        "name": path.name,
        "uri": str(path),
        "type": {"instanceSchema": schema},
        "metadata": properties,
    }
    return {"artifacts": [artifact]}


def _schema(title: str) -> str:
    return f"title: {title}\ntype: object"


def _distributions(image: Image) -> list[metadata.Distribution]:
    return list(metadata.distributions(path=[str(image.site_packages)]))


def _within(files: list[Path], base: Path) -> list[Path]:
    return [f for f in files if f.is_relative_to(base) and f.suffix != ".pyc"]


class Report:
    """Prints a line for each check, and remembers whether one failed."""

    def __init__(self) -> None:
        self.failed = 0

    def add(self, name: str, problems: Iterable[str]) -> None:
        """Prints how a check went; a check that breaks has failed."""
        try:
            found = list(problems)
        except RuntimeError as error:
            found = [str(error)]
        print(f"{'FAIL' if found else 'ok  '}  {name}", flush=True)
        for problem in found[:20]:
            print(f"        {problem}", flush=True)
        self.failed += bool(found)


def check_content(report: Report, folder: Path, accelerator: str) -> None:
    """Installs the image's content, and checks it."""
    print("      installing what the image would contain", flush=True)
    image = Image(ROOT, folder, accelerator)
    checks = [packages_are_the_locks, files_have_an_owner, project_is_whole]
    if accelerator == "gpu":
        checks.append(cuda_libraries_load)
    for check in checks:
        report.add(_title(check), check(image))
    for name, problems in probe(image, folder).items():
        report.add(name, problems)
    report.add(_title(component_runs), component_runs(image, folder))
    for part, files in image.files.items():
        print(f"      {part}: {image.size(part) / 1e6:.1f} MB in {len(files)} files")


def _title(check: Callable) -> str:
    return (check.__doc__ or "").splitlines()[0].rstrip(".")


def main() -> int:
    """Runs all checks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="check-image")
    parser.add_argument("--accelerator", choices=("cpu", "gpu"), default="cpu")
    arguments = parser.parse_args()
    report = Report()
    for rule in image_rules.RULES:
        report.add(_title(rule), rule(ROOT))
    report.add(_title(same_python), same_python())
    if not report.failed:  # else it would be another image
        with tempfile.TemporaryDirectory(prefix="image-") as name:
            check_content(report, Path(name), arguments.accelerator)
    print(f"check-image: {report.failed or 'none'} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
