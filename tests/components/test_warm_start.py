"""The model that a training starts from."""

import json
from pathlib import Path

import pytest
import tensorflow as tf
from tfx import v1 as tfx
from tfx.utils import io_utils

from components.warm_start import WarmStartError
from components.warm_start.component import WarmStart_Executor
from modules import served_versions

RECORD = "where.json"


def find_incompatibility(model, expected):
    """Stands in for the function of `modules.training.warm_start`."""
    if io_utils.read_string_file(f"{model}/kind") == expected["kind"]:
        return ""
    return f"{model} is not {expected['kind']}"


@pytest.fixture
def served(tmp_path):
    for version, kind in {"9": "old", "100": "new"}.items():
        (tmp_path / "serving" / version).mkdir(parents=True)
        (tmp_path / "serving" / version / "saved_model.pb").touch()
        (tmp_path / "serving" / version / "kind").write_text(kind)
    (tmp_path / "serving" / ".200.incomplete").mkdir()
    return tmp_path / "serving"


@pytest.fixture
def find(tmp_path):
    """Runs WarmStart; returns the directory of its artifact."""

    def find(directory, kind, base_model=tmp_path / "base_model"):
        examples = tfx.types.standard_artifacts.Examples()
        model = tfx.types.standard_artifacts.Model()
        model.uri = str(base_model)
        WarmStart_Executor().Do(
            {"examples": [examples]},
            {"base_model": [model]},
            {
                "directory": str(directory),
                "find_incompatibility": f"{__name__}.find_incompatibility",
                "expected": json.dumps({"kind": kind}),
                "record": RECORD,
            },
        )
        return Path(base_model)

    return find


def test_newest_version_is_copied_and_where_it_was_pushed_is_recorded(find, served):
    base_model = find(served, "new")
    assert (base_model / "Format-Serving" / "kind").read_text() == "new"
    record = json.loads((base_model / RECORD).read_text())
    assert record == {"directory": str(served / "100")}


def test_base_model_is_empty_before_the_first_push(find, tmp_path):
    assert not find(tmp_path / "nowhere", "new").exists()


def test_incompatible_version_is_refused_with_its_directory(find, served):
    with pytest.raises(WarmStartError, match="serving/100 is not old"):
        find(served, "old")


def test_newest_version_in_a_bucket_is_copied_unless_it_was_rolled_back(
    find, served, bucket, object_store
):
    serving = f"{bucket}/serving"
    for version in ("9", "100"):
        served_versions.push(str(served / version), serving, version)
    base_model = f"{bucket}/base_model"
    find(serving, "new", base_model)
    assert object_store.read(f"{base_model}/Format-Serving/kind") == b"new"
    record = json.loads(object_store.read(f"{base_model}/{RECORD}"))
    assert record == {"directory": f"{serving}/100"}

    tf.io.gfile.rename(f"{serving}/100", f"{serving}/{served_versions.WITHDRAWN}/100")
    find(serving, "old", f"{bucket}/other")
    assert object_store.read(f"{bucket}/other/Format-Serving/kind") == b"old"


def test_base_model_in_a_bucket_is_empty_before_the_first_push(
    find, bucket, object_store
):
    find(f"{bucket}/nowhere", "new", f"{bucket}/base_model")
    assert object_store.keys(bucket) == []
