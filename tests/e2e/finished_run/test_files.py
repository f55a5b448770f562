"""The reference of files describes what a run writes."""

import re

import pytest

from tools import reference

pytestmark = pytest.mark.e2e


def test_every_file_of_a_run_and_of_a_version_is_in_the_reference(finished):
    page = (reference.FOLDER / "files.md").read_text()
    described = {
        part
        for path in re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
        for part in path.rstrip("/").split("/")
    }
    (run,) = finished.paths.runs.iterdir()
    (version,) = finished.paths.pushed.glob("[0-9]*")
    for directory in (finished.paths.root, run, version):
        names = {path.name for path in directory.iterdir()}
        # What TensorFlow writes of every SavedModel.
        saved_model = {"assets", "variables", "saved_model.pb", "fingerprint.pb"}
        assert names - described - saved_model == set()
