"""Writes the ops of an installed tensorflow-text into the serving check's table.

Run it with the Python of an environment with that version, from the repository's root:

    PYTHON -I tools/list_text_ops.py components/serving_check/text_ops.json

The table comes from two environments with Python 3.11, one with tensorflow-cpu and
tensorflow-text 2.12.1 (tools/tf_serving_stack.txt), one with 2.20.0 of both. The
versions in each TensorFlow Serving are added by hand: a release names its
tensorflow-text as `org_tensorflow_text` in `tensorflow_serving/workspace.bzl`.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces the installed version's entry in a table."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    # In this order: an import registers ops, and only tensorflow-text's are listed.
    import tensorflow  # noqa: F401

    core = registered_ops()
    import tensorflow_text

    path = Path(sys.argv[1])
    table = json.loads(path.read_text())
    table["ops"][tensorflow_text.__version__] = sorted(registered_ops() - core)
    path.write_text(json.dumps(table, indent=1) + "\n")


def registered_ops() -> set[str]:
    """Returns the names of all ops registered in this process."""
    # Not at the top: `main` sets TensorFlow's log level first.
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session as session

    ops = session.TF_GetBuffer(session.TF_GetAllOpList())
    return {op.name for op in op_def_pb2.OpList.FromString(ops).op}


if __name__ == "__main__":
    main()
