"""The ops of tensorflow-text in each TensorFlow Serving release.

TensorFlow Serving cannot load op libraries, and its tensorflow-text is often years
older than its TensorFlow. `tools/list_text_ops.py` generates the table.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Iterable
from typing import Any

from contracts.errors import named


def text_version(tf_serving_version: str) -> str:
    """Returns the version of tensorflow-text in a TensorFlow Serving release.

    Args:
      tf_serving_version: Such as `2.16`.

    Raises:
      ValueError: The table does not have that version.
    """
    versions = _table()["tf_serving"]
    if tf_serving_version not in versions:
        raise ValueError(
            f"tf_serving_version is {tf_serving_version!r}; allowed are "
            f"{', '.join(versions)}: choose the one that will serve the model"
        )
    return versions[tf_serving_version]


def find_missing(ops: Iterable[str], tf_serving_version: str) -> list[str]:
    """Describes each op that a TensorFlow Serving release lacks, and what to do.

    Args:
      ops: Names of ops that are not TensorFlow's own.
      tf_serving_version: Such as `2.16`.
    """
    table = _table()
    version = text_version(tf_serving_version)
    problems = []
    for op in ops:
        if op in table["ops"][version]:
            continue
        problem = (
            f"op {op!r} is unknown to TensorFlow Serving {tf_serving_version}, whose "
            f"tensorflow-text is {version}: export the model without it"
        )
        releases = [
            release
            for release, text in table["tf_serving"].items()
            if op in table["ops"][text]
        ]
        if releases:
            problem += (
                f", or serve it with TensorFlow Serving {' or '.join(releases)} and "
                "set tf_serving_version accordingly"
            )
        else:
            problem += "; every known TensorFlow Serving lacks it"
        problems.append(named(problem, "E-serving-op"))
    return problems


@functools.cache
def _table() -> dict[str, Any]:
    file = importlib.resources.files(__package__).joinpath("text_ops.json")
    return json.loads(file.read_text("utf-8"))
