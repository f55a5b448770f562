"""The server counts the versions complete that the pipeline counts complete.

`components` and `serving` may not import each other, so each has the rule.
"""

import pytest

from components import versions
from serving import discovery


@pytest.fixture
def pushed(tmp_path):
    """The directory of two pushed versions."""
    model = tmp_path / "model"
    (model / "variables").mkdir(parents=True)
    (model / "saved_model.pb").write_bytes(b"graph")
    (model / "variables" / "variables.index").write_bytes(b"index")
    directory = tmp_path / "pushed"
    for version in (7, 8):
        versions.push(str(model), str(directory), version)
    return directory


def remove_a_file(directory):
    (directory / "8" / "variables" / "variables.index").unlink()


def cut_a_file(directory):
    (directory / "8" / "saved_model.pb").write_bytes(b"g")


def leave_a_push_unfinished(directory):
    (directory / ".8.incomplete").mkdir()


def break_the_manifest(directory):
    (directory / "8" / versions.MANIFEST_FILE).write_text("{")


def remove_the_manifest(directory):
    (directory / "8" / versions.MANIFEST_FILE).unlink()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, [8, 7]),
        (remove_a_file, [7]),
        (cut_a_file, [7]),
        (leave_a_push_unfinished, [7]),
        (break_the_manifest, [7]),
        (remove_the_manifest, [8, 7]),
    ],
)
def test_server_and_pipeline_find_the_same_complete_versions(pushed, change, expected):
    change(pushed)
    assert list(versions.list_versions(str(pushed))) == expected
    assert sorted(discovery.find_model(pushed).scan(), reverse=True) == expected
