"""Which model a training starts from."""

import json
from pathlib import Path

import pytest
from tfx import v1 as tfx

from components.warm_start import WarmStartError
from components.warm_start.component import WarmStart_Executor

RECORD = "where.json"


def find_misfit(model, expected):
    """What `modules.training.warm_start.find_misfit` is to the pipeline."""
    if Path(model, "kind").read_text() == expected["kind"]:
        return ""
    return f"{model} is no {expected['kind']}"


@pytest.fixture
def served(tmp_path):
    for version, kind in {"9": "old", "100": "new"}.items():
        (tmp_path / "serving" / version).mkdir(parents=True)
        (tmp_path / "serving" / version / "kind").write_text(kind)
    (tmp_path / "serving" / ".200.incomplete").mkdir()
    return tmp_path / "serving"


@pytest.fixture
def find(tmp_path):
    """Runs WarmStart; the directory of its artifact."""

    def find(directory, kind):
        examples = tfx.types.standard_artifacts.Examples()
        model = tfx.types.standard_artifacts.Model()
        model.uri = str(tmp_path / "base_model")
        WarmStart_Executor().Do(
            {"examples": [examples]},
            {"base_model": [model]},
            {
                "directory": str(directory),
                "find_misfit": f"{__name__}.find_misfit",
                "expected": json.dumps({"kind": kind}),
                "record": RECORD,
            },
        )
        return Path(model.uri)

    return find


def test_newest_version_is_copied_and_where_it_was_pushed_is_recorded(find, served):
    found = find(served, "new")
    assert (found / "Format-Serving" / "kind").read_text() == "new"
    record = json.loads((found / RECORD).read_text())
    assert record == {"directory": str(served / "100")}


def test_nothing_pushed_yet_leaves_nothing(find, tmp_path):
    assert not find(tmp_path / "nowhere", "new").exists()


def test_version_that_does_not_fit_is_refused_by_its_own_directory(find, served):
    with pytest.raises(WarmStartError, match="serving/100 is no old"):
        find(served, "old")
