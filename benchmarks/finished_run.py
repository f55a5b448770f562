"""What a finished run left, for benchmarks that begin in the middle of a pipeline."""

from __future__ import annotations

from pathlib import Path


def newest_artifact(output: Path, component: str, kind: str) -> str:
    """Returns the directory of what a component wrote last.

    Args:
      output: A run's output directory.
      component: The component's name, as `Transform`.
      kind: The output's name, as `transform_graph`.
    """
    found = list((output / "artifacts" / component / kind).iterdir())
    return str(max(found, key=lambda path: int(path.name)).absolute())
