"""The model that a training starts from."""

import json
import re
from pathlib import Path

import pytest
import tensorflow as tf
from tfx import v1 as tfx

from components.warm_start.component import WarmStart_Executor
from contracts.storage import files
from contracts.versions import exported_model, served_versions
from modules.training.warm_start import CHAMPION_FILE
from tests import tiny
from tests.refusals import refused


@pytest.fixture
def served(tmp_path):
    for version, kind in {"9": "old", "100": "new"}.items():
        model = tmp_path / "serving" / version
        exported_model.write_description(str(model), {"kind": kind})
        (model / "saved_model.pb").write_bytes(tiny.GRAPH)
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
                "expected": json.dumps({"kind": kind}),
            },
        )
        return Path(base_model)

    return find


def test_newest_version_is_copied_and_its_directory_is_recorded(find, served):
    base_model = find(served, "new")
    copied = exported_model.read_description(str(base_model / "Format-Serving"))
    assert copied == {"kind": "new"}
    record = files.read_record(str(base_model / CHAMPION_FILE))
    assert record == {"directory": str(served / "100")}


def test_base_model_is_empty_before_the_first_push(find, tmp_path):
    assert not find(tmp_path / "nowhere", "new").exists()


def test_incompatible_version_is_refused_with_its_directory(find, served):
    got = re.compile(f"{served}/100: kind new instead of old$")
    with refused("E-runs-not-comparable", setting="trainer.warm_start", got=got):
        find(served, "old")


def test_newest_version_in_a_bucket_is_copied_unless_it_was_rolled_back(
    find, served, bucket, object_store
):
    serving = f"{bucket}/serving"
    for version in ("9", "100"):
        served_versions.push(str(served / version), serving, version)
    base_model = f"{bucket}/base_model"
    find(serving, "new", base_model)
    copied = exported_model.read_description(f"{base_model}/Format-Serving")
    assert copied == {"kind": "new"}
    record = files.read_record(f"{base_model}/{CHAMPION_FILE}")
    assert record == {"directory": f"{serving}/100"}

    tf.io.gfile.rename(f"{serving}/100", f"{serving}/{served_versions.WITHDRAWN}/100")
    find(serving, "old", f"{bucket}/other")
    copied = exported_model.read_description(f"{bucket}/other/Format-Serving")
    assert copied == {"kind": "old"}


def test_base_model_in_a_bucket_is_empty_before_the_first_push(
    find, bucket, object_store
):
    find(f"{bucket}/nowhere", "new", f"{bucket}/base_model")
    assert object_store.keys(bucket) == []
