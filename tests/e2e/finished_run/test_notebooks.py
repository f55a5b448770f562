"""The notebooks of the site, executed in a kernel: the kinds of their outputs.

The first line of a code cell states it, such as `# %% output="number 0 1"`:

- `table NAME...`: a table with these columns
- `html WORD...`: HTML with these words
- `number LOW HIGH`: a number in this range
- `text TEXT`: text that contains this one, in which `...` is any text and a line break
  is a space
- `picture`
- nothing: no output
"""

import json
import os
import re

import jupytext
import pytest
from nbclient import NotebookClient

from pipeline.config.paths import REPOSITORY

pytestmark = pytest.mark.e2e

NOTEBOOKS = REPOSITORY / "docs" / "notebooks"


def execute(name, directory, **parameters):
    """Executes a notebook in a directory, with other values of its parameters."""
    notebook = jupytext.read(NOTEBOOKS / name)
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            assert all(f"{name} = " in cell.source for name in parameters)
            cell.source = "\n".join(f"{n} = {v!r}" for n, v in parameters.items())
    resources = {"metadata": {"path": str(directory)}}
    client = NotebookClient(notebook, timeout=600, resources=resources)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    del environment["PYTEST_CURRENT_TEST"]  # ipykernel would not show what C++ prints
    client.execute(env=environment)  # raises CellExecutionError
    assert other_hosts(notebook) == set()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            kind, _, expected = cell.metadata.get("output", "").partition(" ")
            outputs = [read(output) for output in cell.outputs]
            printed = "".join(output.get("text", "") for output in cell.outputs)
            assert "tensorflow:" not in printed, "a library's log is below a cell"
            assert matches(kind, expected, outputs), f"{cell.source}\n\n{outputs}"


def other_hosts(notebook):
    """Returns the hosts of all addresses in the outputs of a notebook, as saved."""
    outputs = [cell.get("outputs", []) for cell in notebook.cells]
    found = re.findall(
        r"(?:https?:)?//([\w.-]+\.[a-z]{2,}|localhost)", json.dumps(outputs)
    )
    return set(found) - {"www.w3.org", "localhost"}  # the name space of SVG


def read(output):
    """Returns the representations of an output by MIME type."""
    if output.output_type == "stream":
        return {"text/plain": output.text}
    return output.data


def matches(kind, expected, outputs):
    """Returns whether the outputs of a cell are of a kind."""
    if not kind:
        return not outputs
    text = "".join(output.get("text/plain", "") for output in outputs)
    html = "".join(output.get("text/html", "") for output in outputs)
    match kind:
        case "text":
            pattern = re.escape(" ".join(expected.split())).replace(r"\.\.\.", ".*")
            return re.search(pattern, " ".join(text.split()))
        case "number":
            low, high = map(float, expected.split())
            return low <= float(text) <= high
        case "table":
            return all(f"<th>{name}</th>" in html for name in expected.split())
        case "html":
            return all(word in html for word in expected.split())
        case "picture":
            return any("image/png" in output for output in outputs)
    raise ValueError(f"output={kind!r}")


def test_the_tutorials_block_by_block(finished, tmp_path):
    execute("from_the_tutorials.py", tmp_path, OUTPUT=str(finished.paths.root))


@pytest.mark.nightly
def test_from_a_frame_to_a_served_model(tmp_path):
    execute("first_run.py", tmp_path, FOLDER="tickets")
