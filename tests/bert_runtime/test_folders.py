"""The folders and versions that `Model` and `bert-runtime predict` take."""

import pandas as pd
import pytest
from click.testing import CliRunner

from bert_runtime import Model
from bert_runtime.cli.main import main
from contracts.errors import UsageError
from modules.export.onnx import portable_folder
from modules.export.pushed_model import read_pushed
from prediction.saved_model.saved_model_predictor import SavedModelPredictor
from tests import exported

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def toy():
    """Real models instead of toys."""


@pytest.fixture(scope="module")
def served(export, tmp_path_factory):
    """A SavedModel, and a directory of versions with its portable folder.

    The newest version is complete, and the one after it is not.
    """
    model = export("pairs")
    versions = tmp_path_factory.mktemp("served")
    for name in ("7", "8/onnx", "9"):
        (versions / name).mkdir(parents=True)
        pushed = read_pushed(str(model.directory))
        portable_folder.write(pushed, versions / name, is_int8=name == "8/onnx")
    (versions / "9" / "model.onnx").unlink()
    return model.directory, versions


def test_newest_complete_version_predicts_what_the_saved_model_does(served):
    saved_model, versions = served
    expected = [
        prediction.as_columns()
        for prediction in SavedModelPredictor(str(saved_model)).predict(exported.PAIRS)
    ]
    texts = exported.PAIRS[:3]  # the fourth has no visible character
    for folder in (versions, versions / "8", versions / "8" / "onnx", versions / "7"):
        rows = Model(folder).predict(texts)
        assert [row["prediction"] for row in rows] == [
            row["prediction"] for row in expected[:3]
        ]
        assert [row["probability"] for row in rows] == pytest.approx(
            [row["probability"] for row in expected[:3]], abs=1e-5
        )
    frame = pd.DataFrame(texts, columns=["question", "answer"], index=["x", "y", "z"])
    predicted = Model(versions).predict(frame)
    assert list(predicted.index) == ["x", "y", "z"]
    assert list(predicted["prediction"]) == [row["prediction"] for row in rows]


def test_weights_in_int8_are_loaded_where_they_exist(served):
    _, versions = served
    (row,) = Model(versions, int8=True).predict(exported.PAIRS[:1])
    assert row["prediction"] in ("no", "maybe", "yes")
    with pytest.raises(UsageError, match=r"model\.int8\.onnx"):
        Model(versions / "7", int8=True)


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("9", "incomplete: model.onnx is missing"),
        ("none", "none: no such directory; give a folder of"),
        ("saved", "is a SavedModel; export it with `bert-pipeline export"),
    ],
)
def test_other_folder_is_refused_in_one_line(served, folder, message):
    saved_model, versions = served
    directory = saved_model if folder == "saved" else versions / folder
    command = ["predict", "--model", str(directory), "--pair", "a", "b"]
    finished = CliRunner().invoke(main, command)
    assert finished.exit_code == 2
    assert finished.stdout == ""
    (line,) = finished.stderr.splitlines()
    assert message in line
