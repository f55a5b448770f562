"""Kubeflow's launcher, the parent of a component's process in its pod.

It follows what was seen of the launcher after 2.17.0, and its source where
`../recordings/README.md` says so.
"""

import os
import posixpath
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.compiled.backends import LOGS_KEY, local_path
from tests.object_store.client import ObjectStore


def launch(
    message: dict[str, Any],
    store: ObjectStore,
    log: Path,
    output: Path,
    run_command: Callable[[], int],
) -> int:
    """Runs a component as the launcher does."""
    for name, artifact in _artifacts(message.get("inputs", {})):
        try:
            _download(store, artifact["uri"])
        except OSError as error:
            print(f'failed to download input artifact "{name}": {error}', flush=True)
            return 1
    outputs = dict(_artifacts(message["outputs"]))
    for artifact in outputs.values():
        os.makedirs(os.path.dirname(local_path(artifact["uri"])), exist_ok=True)
    status = run_command()
    sys.stdout.flush()
    logs = outputs.pop(LOGS_KEY)
    if status == 0:
        for artifact in outputs.values():
            _upload(store, artifact["uri"])
        written = Path(message["outputs"]["outputFile"])
        if written.exists():
            output.write_bytes(written.read_bytes())
    else:
        print(f"failed to execute component: exit status {status}", flush=True)
    store.write(logs["uri"], log.read_bytes())
    return 1 if status else 0


def _artifacts(side: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (name, artifact)
        for name, channel in side.get("artifacts", {}).items()
        for artifact in channel["artifacts"]
    ]


def _download(store: ObjectStore, uri: str) -> None:
    """Writes each object below a URI to a file, also one whose key ends with `/`."""
    bucket = uri.removeprefix("gs://").partition("/")[0]
    prefix = uri.removeprefix(f"gs://{bucket}/")
    for key in store.keys(uri):
        if key == prefix or key.startswith(f"{prefix}/"):
            path = posixpath.normpath(local_path(f"gs://{bucket}/{key}"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(store.read(f"gs://{bucket}/{key}"))


def _upload(store: ObjectStore, uri: str) -> None:
    """Writes what is at an output's local path to its URI."""
    local = Path(local_path(uri))
    if local.is_file():
        store.write(uri, local.read_bytes())
    elif local.is_dir():
        for path in local.rglob("*"):
            if path.is_file():
                store.write(f"{uri}/{path.relative_to(local)}", path.read_bytes())
    else:
        print(f"Local filepath {str(local)!r} does not exist", flush=True)
