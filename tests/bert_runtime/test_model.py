"""Predictions in Python without TensorFlow."""

import re
import subprocess
import sys

import pandas as pd
import pytest

import bert_runtime
from bert_runtime import Model
from tests.refusals import refused


@pytest.mark.parametrize(
    ("folder", "texts", "expected"),
    [
        ("length", ["abc"], [{"sentence": "abc", "prediction": 0.3}]),
        (
            *("longer", [("a", "bb")]),
            [{"right": "a", "left": "bb", "prediction": "second", "probability": 0.9}],
        ),
        (
            *("letters", (text for text in ["ab", "c"])),
            [
                {"sentence": text, "prediction": labels}
                | {"probability_with a": share, "probability_with b": share}
                for text, labels, share in [
                    ("ab", ["with a", "with b"], 0.9),
                    ("c", [], 0.2),
                ]
            ],
        ),
        ("length", [], []),
    ],
)
def test_list_gives_a_dictionary_for_each_row(folder, texts, expected):
    predicted = Model(folder).predict(texts)
    assert predicted == expected


def test_series_and_frame_keep_their_index():
    model = Model("length")
    index = pd.Index(["x", "y"], name="row")
    series = pd.Series(["a", "bcd"], index=index)
    frame = pd.DataFrame({"prediction": [1, 2], "sentence": series}, index=index)
    for predicted in (model.predict(series), model.predict(frame)):
        pd.testing.assert_index_equal(predicted.index, index)
        assert list(predicted["prediction"]) == [0.1, 0.3]
    assert list(predicted["input_prediction"]) == [1, 2]


@pytest.mark.parametrize(
    ("texts", "name", "got"),
    [
        ("a", "E-text-refused", "^str$"),
        ([("a", "b")], "E-text-refused", r"^row 0 is \('a', 'b'\)$"),
        (pd.Series(["a", ""], index=[7, 8]), "E-text-refused", r"^row 1 \(index 8\): "),
        (pd.DataFrame({"text": ["a"]}), "E-column-missing", "'sentence', but text$"),
    ],
)
def test_other_texts_are_refused(texts, name, got):
    with refused(name, setting="texts", got=re.compile(got)):
        Model("length").predict(texts)


def test_arguments_reach_the_model():
    model = Model("longer", min_probability=0.95, int8=True, threads=2)
    assert model._predictor.loaded == ("longer", "model.int8.onnx", 2)
    assert model.predict([("a", "b")])[0]["prediction"] is None


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [({"min_probability": 1.5}, "min_probability"), ({"threads": 0}, "threads")],
)
def test_argument_out_of_range_is_refused(arguments, setting):
    with refused("E-settings-refused", setting=setting):
        Model("length", **arguments)


def test_package_has_no_other_name():
    assert "Model" in dir(bert_runtime)
    with pytest.raises(AttributeError, match="'NoSuchName'"):
        _ = bert_runtime.NoSuchName


def test_list_is_predicted_without_pandas_and_what_trains():
    """Only the full product has these packages."""
    script = """
import sys
import bert_runtime.cli.predict, bert_runtime.model
from prediction import texts
assert texts.read_texts(["a"], ["text"], "").rows == [("a",)]
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    absent = ("pandas", "pyarrow", "tensorflow", "apache_beam", "tfx", "rich", "yaml")
    ours = ("modules", "pipeline", "report", "components")
    assert not {*absent, *ours} & {*finished.stdout.split()}
