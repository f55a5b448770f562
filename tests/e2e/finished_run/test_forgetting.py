"""A person's rows are in no file of a real run, and the next run creates the others."""

import gzip
import re
from pathlib import Path

import pytest

import pipeline
from contracts.versions import served_versions
from report import page
from report.content import Report
from tests.e2e.finished_run.components import DATA

pytestmark = pytest.mark.e2e


def find_texts(root):
    """Returns the directories of the output with texts of any row, decompressed."""
    paths = [path for path in root.rglob("*") if path.is_file()]
    found = [path for path in paths if b" the road" in read(path).lower()]
    return {path.relative_to(root).parts[0] for path in found}


def read(path):
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def forget(finished):
    return pipeline.forget(finished.paths.root, column="idx", value="7", delete=True)


def test_rows_are_in_no_file_and_others_stay_where_no_run_writes_them_again(finished):
    root, run, pushed = finished.paths.root, finished.run.directory, finished.run.pushed
    assert find_texts(root) >= {"artifacts", "examples", "runs"}
    before = Report.read(str(run)).worst_rows
    tables = (finished.recipe.parent / "data").glob("*.tsv")  # an id in each split
    lines = [line for path in tables for line in path.read_text().splitlines()]
    texts = [line.split("\t")[2:] for line in lines if line.startswith("7\t")]
    tokens = finished.output("Transform", "transformed_examples").uri
    found = forget(finished)
    assert find_texts(root) <= {"runs", "serving"}
    assert not Path(tokens).exists()
    report = Report.read(str(run))
    assert report.worst_rows == [row for row in before if row.texts not in texts]
    assert report.worst_rows
    assert report.batch is None
    assert (run / "report.html").read_text() == page.render(report)
    assert served_versions.verify(str(pushed)) == ""
    assert pushed in [model.path for model in found.models]
    assert len(found.sources) == 2
    assert found.unread == []


@pytest.mark.nightly
def test_next_run_creates_what_was_deleted(finished, start_training):
    forget(finished)
    assert find_texts(finished.paths.root) <= {"runs", "serving"}
    for path in (finished.recipe.parent / "data").glob("*.tsv"):
        path.write_text(re.sub(r"(?m)^7\t.*\n", "", path.read_text()))
    assert start_training() == {*DATA, "Transform", "Trainer"} - {"ImportSchemaGen"}
