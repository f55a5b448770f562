"""Checks this machine, the installed packages, and the inputs of a recipe."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import psutil
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from contracts import cpu, wording
from contracts.errors import UsageError
from contracts.settings import cluster
from contracts.storage import uris
from ingest import examples
from ingest.examples import splits, text_source
from ingest.examples.bad_rows import BadRows
from pipeline.beam import job_servers
from pipeline.config import recipe
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs import encoder_source
from pipeline.inputs.resolve import find_data
from pipeline.inputs.resolved_checks import load_checks

_STACKS = REPOSITORY / "stacks"
_GIB = 1 << 30
# The defaults of `serve`. Not imported from it, because gRPC may be missing.
PORTS = {"--grpc-port": 8500, "--port": 8501}
_RUN_MEMORY = 3 * _GIB  # of a run of the sample
# A training keeps two checkpoints with the moments of AdamW (6 times the weights) and
# the best weights; a run exports and pushes them.
_ENCODER_COPIES = 10
_NAMES_SHOWN = 4


@dataclasses.dataclass(frozen=True)
class Check:
    """The result of a check.

    Attributes:
      name: What was checked.
      status: An error stops a run; with a warning a feature is missing or may fail.
      value: What was found, or the error that a run would end with.
      advice: What to do; empty if `value` names it, or nothing is needed.
    """

    name: str
    status: Literal["ok", "warning", "error"]
    value: str | UsageError
    advice: str = ""


def run_checks(config_file: Path, overrides: dict[str, Any]) -> Iterator[Check]:
    """Runs all checks; nothing is written, and nothing is downloaded.

    Args:
      config_file: The recipe.
      overrides: Values by dotted key, as for `load_config`.

    Yields:
      The results. If the recipe is invalid, its encoder, data and output are not
      checked.
    """
    yield from _check_python()
    yield _check_packages()
    yield _check_cpu()
    tensorflow, gpus = _check_tensorflow()
    yield tensorflow
    yield gpus
    yield _check_memory()
    config = None
    try:
        config = recipe.load_config(config_file, overrides)
        yield Check("recipe", "ok", str(config_file))
    except UsageError as error:
        yield Check("recipe", "error", error)
    if config is not None:
        yield from _check_recipe(config, has_tensorflow=tensorflow.status == "ok")
    advice = "set TMPDIR to another directory"
    yield _check_space("temporary files", Path(tempfile.gettempdir()), _GIB, advice)
    for option, port in PORTS.items():
        yield _check_port(port, option)


def _check_recipe(config: Config, *, has_tensorflow: bool) -> Iterator[Check]:
    weights = 0
    if has_tensorflow:
        encoder, weights = _check_encoder(config)
        yield encoder
    yield _checked("data", lambda: _describe_data(config))
    yield _checked("checks of the model", lambda: _describe_checks(config))
    root = OutputPaths.of(config).root
    try:
        uris.refuse_pattern("output", str(root))
        needed = _GIB + _ENCODER_COPIES * weights
        advice = "name another directory with --output DIR"
        yield _check_space("output", root, needed, advice)
    except UsageError as error:
        yield Check("output", "error", error)
    use_of_cluster = _checked(cluster.VARIABLE, lambda: _describe_cluster(config))
    if cluster.VARIABLE in os.environ or use_of_cluster.status == "error":
        yield use_of_cluster
    if config.beam.runner in ("flink", "spark"):
        yield _checked(
            "Beam's job server", lambda: job_servers.find_jar(config.beam, is_here=True)
        )
    if config.beam.runner == "flink" and config.beam.master:
        yield _check_flink(config.beam.master)
    if config.beam.environment == "docker" and config.beam.runner != "in_process":
        if path := shutil.which("docker"):
            yield Check("docker", "ok", path)
        else:
            advice = "beam.environment is docker: install docker"
            yield Check("docker", "error", "not on the PATH", advice)


def _checked(name: str, describe: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", describe())
    except UsageError as error:
        return Check(name, "error", error)


def _check_python() -> Iterator[Check]:
    version, (libc, libc_version) = platform.python_version(), platform.libc_ver()
    glibc = f"{libc or 'not glibc'} {libc_version}".strip()
    stacks = list(_read_stacks())
    if not stacks:  # installed from a wheel, which has no locks
        yield Check("Python", "ok", version)
        yield Check("C library", "ok", glibc)
        return
    python = version.rpartition(".")[0]
    needed = next((glibc for _, glibc, pythons in stacks if python in pythons), None)
    if needed is None:
        allowed = ", ".join(python for *_, pythons in stacks for python in pythons)
        advice = f"run `make install PYTHON=...` with one of {allowed}"
        yield Check("Python", "error", version, advice)
        return
    yield Check("Python", "ok", f"{version}, {sys.prefix}")
    if libc == "glibc" and _numbers(libc_version) >= _numbers(needed):
        yield Check("C library", "ok", glibc)
    else:
        advice = f"this Python's TFX needs glibc {needed}; see docs/stacks.md"
        yield Check("C library", "error", glibc, advice)


def _read_stacks() -> Iterator[tuple[str, str, list[str]]]:
    """Yields name, oldest glibc and Pythons of each stack."""
    with contextlib.suppress(FileNotFoundError):
        for line in (_STACKS / "stacks.txt").read_text("utf-8").splitlines():
            if line and not line.startswith("#"):
                name, glibc, *pythons = line.split()
                yield name, glibc, pythons


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def _check_packages() -> Check:
    """Compares the installed packages with the lock of this Python's stack."""
    python = "{}.{}".format(*sys.version_info)
    names = [name for name, _, pythons in _read_stacks() if python in pythons]
    if not names:
        return Check("packages", "ok", "no lock to compare them with")
    # Python imports the first; setuptools has its own copies at the end.
    installed = {
        canonicalize_name(package.metadata["Name"]): package.version
        for package in reversed(list(metadata.distributions()))
    }
    expected = _read_lock(_STACKS / names[0] / "requirements.lock")
    missing: list[str] = [name for name in expected if name not in installed]
    different = [
        f"{name} {installed[name]} instead of {version}"
        for name, version in expected.items()
        if installed.get(name, version) != version
    ]
    value = f"TFX {names[0]}: {len(expected)} packages as locked"
    if not missing and not different:
        return Check("packages", "ok", value)
    differences = [f"missing: {_join(missing)}"] if missing else []
    differences += [f"differ: {_join(different)}"] if different else []
    status: Literal["warning", "error"] = "error" if missing else "warning"
    return Check("packages", status, "; ".join(differences), "run `make install`")


def _read_lock(path: Path) -> dict[NormalizedName, str]:
    """Returns the version of each package that the lock has for this machine."""
    versions = {}
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith((" ", "#")):
            requirement = Requirement(line.rstrip("\\").strip())
            if requirement.marker is None or requirement.marker.evaluate():
                version = str(requirement.specifier).removeprefix("==")
                versions[canonicalize_name(requirement.name)] = version
    return versions


def _join(names: list[str]) -> str:
    rest = len(names) - _NAMES_SHOWN
    shown = ", ".join(names[:_NAMES_SHOWN])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _check_cpu() -> Check:
    flags = cpu.read_flags()
    cores = (
        f"{wording.count(len(os.sched_getaffinity(0)), 'core')}, {platform.machine()}"
    )
    if flags and "avx" not in flags:
        advice = "TensorFlow's wheels need AVX; use another machine"
        return Check("CPU", "error", f"{cores} without AVX", advice)
    flag = cpu.find_bfloat16()
    dtype = f"bfloat16 ({flag})" if flag else "float32 (no bfloat16 instructions)"
    value = f"{cores}; trainer.mixed_precision auto trains on it in {dtype}"
    return Check("CPU", "ok", value)


def _check_tensorflow() -> tuple[Check, Check]:
    """Imports TensorFlow, and compares its devices with those of the GPU driver."""
    driver = _list_gpus()
    try:
        import tensorflow as tf

        devices = [
            device.name.removeprefix("/physical_device:")
            for kind in ("GPU", "TPU")
            for device in tf.config.list_physical_devices(kind)
        ]
    except Exception as error:  # noqa: BLE001 (an ImportError, or an error of C++)
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        failed = Check("TensorFlow", "error", reason, "run `make install`")
        return failed, Check("accelerators", "ok", _join(driver) or "not checked")
    loaded = Check("TensorFlow", "ok", tf.__version__)
    if driver and not devices:
        advice = (
            "TensorFlow has no CUDA libraries: run `make bench-gpu`, which adds them, "
            "or install stacks/*/gpu.lock"
        )
        unused = f"{_join(driver)}, which TensorFlow does not use"
        return loaded, Check("accelerators", "warning", unused, advice)
    value = ", ".join([*devices, *driver]) or "none: training runs on the CPU"
    return loaded, Check("accelerators", "ok", value)


def _list_gpus() -> list[str]:
    """Returns the names of the GPUs that NVIDIA's driver lists."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        listed = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in listed.stdout.splitlines() if line.strip()]


def _check_memory() -> Check:
    memory = psutil.virtual_memory()
    value = f"{_show(memory.available)} of {_show(memory.total)} available"
    if memory.available >= _RUN_MEMORY:
        return Check("memory", "ok", value)
    advice = f"a run of a small encoder needs {_show(_RUN_MEMORY)}: end other programs"
    return Check("memory", "warning", value, advice)


def _describe_cluster(config: Config) -> str:
    is_used = cluster.check_local_run(config.trainer.strategy)
    state = "the cluster of" if is_used else "not used with"
    return f"{state} trainer.strategy={config.trainer.strategy}"


def _check_space(name: str, directory: Path, needed: int, advice: str) -> Check:
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            directory.stat()
    except OSError as error:  # the name is too long
        return Check(name, "error", f"{directory}: {error.strerror}", advice)
    existing = directory
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    value = f"{directory}: {_show(free)} free"
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        value = f"{existing} is not a writable directory"
        return Check(name, "error", value, advice)
    if free < needed:
        advice = f"about {_show(needed)} are needed; free space, or use another disk"
        return Check(name, "warning", value, advice)
    return Check(name, "ok", value)


def _show(size: float) -> str:
    return f"{size / _GIB:.1f} GiB"


def _check_encoder(config: Config) -> tuple[Check, int]:
    """Checks the encoder as a run does, and returns the size of its files in bytes."""
    from modules.encoder import conversion  # imports TensorFlow

    source = config.encoder.source
    if not uris.is_local(source):
        return Check("encoder", "ok", f"{source}: downloaded by a run, not checked"), 0
    try:
        directory = encoder_source.locate(source, "encoder.source")
        files = conversion.source_files(directory)
        size = sum(os.path.getsize(path) for path in files)
        if conversion.needs_import(directory):
            return Check("encoder", "ok", f"{source}: imported by a run"), size
        architecture = encoder_source.resolve_encoder(config).architecture
    except UsageError as error:
        return Check("encoder", "error", error), 0
    except OSError as error:
        return Check("encoder", "error", str(error)), 0
    shape = "{} x {}".format(
        wording.count(architecture["num_hidden_layers"], "layer"),
        architecture["hidden_size"],
    )
    return Check("encoder", "ok", f"{source}: {shape}, {size / 1e6:.0f} MB"), size


def _describe_data(config: Config) -> str:
    """Opens the splits and checks the columns of their first rows."""
    settings, task = config.data, config.task
    location, source = find_data(config)
    if source is None:
        return f"{location}: read by a run, not checked"
    if task.is_tokenized or not source.files:
        records = examples.find_examples(location, settings)
        config.with_split(records.patterns)
        return f"{location}: TFRecords of {', '.join(sorted(records.patterns))}"
    if source.has_splits:
        # Reading the first rows writes no file of bad rows.
        bad_rows = BadRows(settings.on_bad_rows, Path())
        opened = text_source.open_splits(
            source, task, settings, lambda _: None, bad_rows
        )
        labelled = [name for name, rows in opened.items() if rows is not None]
        if config.halving is not None:
            labelled.append(splits.TEST)  # a run knows whether it can halve `eval`
        config.with_split(labelled)
        names = ", ".join(filter(None, source.files))
        return f"{location}: {names}; `inspect-data` reads all rows"
    config.with_split([*splits.REQUIRED_SPLITS, splits.TEST])
    text_source.find_class_names(source, None, task.label_column)
    return f"{location}: split by a run; `inspect-data` reads all rows"


def _describe_checks(config: Config) -> str:
    """Imports a user's own checks, and reads files of labelled rows, as a run does."""
    return ", ".join(loaded.name for loaded, _ in load_checks(config)) or "none"


def _check_flink(master: str) -> Check:
    try:
        parts = urllib.parse.urlsplit(master if "://" in master else f"//{master}")
        address = parts.hostname or "", parts.port or 80
        socket.create_connection(address, timeout=10.0).close()
    except (OSError, ValueError) as error:
        advice = "give HOST:PORT of the JobManager's REST API, 8081 by default"
        return Check("Flink", "error", f"beam.master {master}: {error}", advice)
    return Check("Flink", "ok", master)


def _check_port(port: int, option: str) -> Check:
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", port))
        except OSError as error:
            value = (error.strerror or str(error)).lower()
            advice = f"stop the program that uses it, or run `serve {option} 0`"
            return Check(f"port {port}", "warning", value, advice)
    return Check(f"port {port}", "ok", "free")
