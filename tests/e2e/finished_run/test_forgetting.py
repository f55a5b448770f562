"""A person's rows are in no file of a real run, and the next run creates the rest."""

import gzip
import re

import pytest

import pipeline
from contracts.versions import served_versions
from report.content import Report
from tests.e2e.finished_run.components import DATA

pytestmark = pytest.mark.e2e


@pytest.fixture
def find(finished):
    """Returns the files, decompressed, that have the name in the person's rows."""

    def find():
        paths = [path for path in finished.paths.root.rglob("*") if path.is_file()]
        return {path for path in paths if b"quillfeather" in read(path).lower()}

    return find


def read(path):
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def forget(finished):
    return pipeline.forget(finished.paths.root, column="idx", value="7", delete=True)


def test_no_byte_of_a_person_is_left(finished, find):
    run, pushed = finished.run.directory, finished.run.pushed
    rows = len(Report.read(str(run)).worst_rows)
    before = {path.relative_to(finished.paths.root).parts[0] for path in find()}
    assert before >= {"artifacts", "examples", "runs"}
    tokens = finished.output("Transform", "transformed_examples").uri
    found = forget(finished)
    assert find() == set()
    assert not finished.paths.root.joinpath(tokens).exists()
    assert len(Report.read(str(run)).worst_rows) == rows - 1
    assert (run / "report.html").is_file()
    assert served_versions.verify(str(pushed)) == ""
    assert pushed in [model.path for model in found.models]
    assert len(found.sources) == 2
    assert found.unread == []


@pytest.mark.nightly
def test_next_run_creates_what_was_deleted(finished, find, start_training):
    forget(finished)
    for path in (finished.recipe.parent / "data").glob("*.tsv"):
        path.write_text(re.sub(r"(?m)^7\t.*\n", "", path.read_text()))
    assert start_training() == {*DATA, "Transform", "Trainer"} - {"ImportSchemaGen"}
    assert find() == set()
