"""The reference of files describes what a run writes."""

import re
import stat

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


def test_private_run_is_read_by_its_user_and_its_version_by_a_server(finished):
    paths = finished.paths
    below = {path: stat.S_IMODE(path.stat().st_mode) for path in paths.root.rglob("*")}
    served = {path for path in below if path.is_relative_to(paths.serving)}
    # A copied file has the permissions of its source, in a directory of the run.
    closed = {path for path in below if path.is_dir() or path.parent == paths.root}
    assert [path for path in closed - served if below[path] & 0o077] == []
    readers = below[paths.pushed] & 0o055
    versions = {path for path in served if path.parent != paths.root}
    assert {
        path: oct(below[path])
        for path in versions
        if below[path] & 0o055 != (readers if path.is_dir() else readers & 0o044)
    } == {}
