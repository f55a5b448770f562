"""Which ops of tensorflow-text a TensorFlow Serving has built in.

TensorFlow Serving can load no op library, and the tensorflow-text in it is often years
older than its TensorFlow. `tools/list_text_ops.py` makes the table.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections.abc import Iterable
from typing import Any


def text_version(tf_serving_version: str) -> str:
    """Returns the version of tensorflow-text in a TensorFlow Serving.

    Args:
      tf_serving_version: Such as `2.16`.

    Raises:
      ValueError: The table does not have that version.
    """
    versions = _table()["tf_serving"]
    if tf_serving_version not in versions:
        raise ValueError(
            f"tf_serving_version is {tf_serving_version!r}, but the serving check "
            f"knows {', '.join(versions)}: choose the one that will serve the model"
        )
    return versions[tf_serving_version]


def find_missing(ops: Iterable[str], tf_serving_version: str) -> list[str]:
    """Says of each op that a TensorFlow Serving does not have what to do.

    Args:
      ops: Names of ops that TensorFlow itself does not have.
      tf_serving_version: Such as `2.16`.
    """
    table = _table()
    version = text_version(tf_serving_version)
    return [
        f"op {op!r} is unknown to TensorFlow Serving {tf_serving_version}, whose "
        f"tensorflow-text is {version}: {_advise(op, table)}"
        for op in ops
        if op not in table["ops"][version]
    ]


def _advise(op: str, table: dict[str, Any]) -> str:
    having = [
        serving
        for serving, version in table["tf_serving"].items()
        if op in table["ops"][version]
    ]
    if not having:
        return "export the model without it, no TensorFlow Serving known here has it"
    return (
        "export the model without it, or serve it with TensorFlow Serving "
        f"{' or '.join(having)} and set tf_serving_version so"
    )


@functools.cache
def _table() -> dict[str, Any]:
    file = importlib.resources.files(__package__).joinpath("text_ops.json")
    return json.loads(file.read_text())
