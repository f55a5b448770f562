"""Predictions of texts that Python holds."""

import re

import pandas as pd
import pytest

from pipeline import predict
from tests import toy_models
from tests.refusals import refused

pytestmark = pytest.mark.slow

TEXTS = ["x", "12345", "123"]
SCORES = [0.1, 0.5, 0.3]


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    return str(toy_models.save(toy_models.Length(), tmp_path_factory.mktemp("scorer")))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return toy_models.save(toy_models.Longer(), tmp_path_factory.mktemp("pairs"))


@pytest.mark.parametrize(
    ("index", "dtype"),
    [
        (pd.RangeIndex(3), "string"),
        (pd.Index([5, 5, 2], name="row"), "category"),
        (pd.Index(["c", None, float("nan")]), object),
        (
            pd.MultiIndex.from_tuples(
                [(1, "a"), (1, "a"), (0, None)], names=["n", None]
            ),
            "string",
        ),
        (pd.DatetimeIndex(["2026-01-02", *["2026-01-01"] * 2], tz="UTC"), object),
        (pd.CategoricalIndex(["b", "a", "b"]), "category"),
    ],
    ids=["default", "duplicates", "missing", "levels", "dates", "categories"],
)
def test_predictions_of_a_series_and_of_a_frame_keep_the_index(scorer, index, dtype):
    series = pd.Series(TEXTS, index=index, name="text", dtype=dtype)
    (column,) = predict(scorer, TEXTS).columns.difference(["prediction"])
    frame = series.to_frame(column).assign(other=range(3))
    for predicted in (predict(scorer, series), predict(scorer, frame)):
        pd.testing.assert_index_equal(predicted.index, index)
        assert list(predicted["prediction"]) == pytest.approx(SCORES)
        assert list(predicted[column]) == TEXTS
    assert list(predicted["other"]) == [0, 1, 2]
    filtered = frame[[False, True, True]]  # as after dropna
    assert predict(scorer, filtered[column]).index.equals(index[1:])


def test_series_of_pairs_keeps_its_index(pairs):
    series = pd.Series([("long text", "short"), ["a", "bb"]], index=["n", "m"])
    predicted = predict(pairs, series)["prediction"]
    assert predicted.to_dict() == {"n": "first", "m": "second"}


def test_series_without_rows_has_no_predictions(scorer):
    empty = pd.Series([], dtype=object, index=pd.Index([], name="row"))
    predicted = predict(scorer, empty)
    assert (len(predicted), predicted.index.name) == (0, "row")
    assert "prediction" in predicted.columns


@pytest.mark.parametrize(
    ("texts", "got"),
    [
        (pd.Series(["a", None], index=["x", "y"]), r"^row 1 \(index 'y'\) is None$"),
        (pd.Series(["a", pd.NA]), "^row 1 is <NA>$"),
        (["a", ("b", "c")], r"^row 1 is \('b', 'c'\)$"),
        (pd.Series(["", "b"], index=[7, 7]), r"^row 0 \(index 7\): .* visible"),
        (["a", "cut \ud83d"], r"^row 1: .* '\\ud83d', at character 5"),
        ("a", "^str$"),
        (b"a", "^bytes$"),
        ({"text": ["a"]}, "^dict$"),
        ([1.5], "^row 0 is 1.5$"),
        (5, "^int$"),
        (None, "^NoneType$"),
    ],
)
def test_row_that_is_not_a_text_is_named(scorer, texts, got):
    with refused("E-text-refused", setting="texts", got=re.compile(got)):
        predict(scorer, texts)


@pytest.mark.parametrize(
    ("columns", "name", "got"),
    [
        (pd.MultiIndex.from_tuples([("x", "text")] * 2), "E-frame-refused", "2 levels"),
        (["sentence", "sentence"], "E-frame-refused", "'sentence'"),
        (["a", "b"], "E-column-missing", "'sentence', but a, b"),
    ],
)
def test_frame_without_one_column_for_each_text_is_refused(scorer, columns, name, got):
    with refused(name, setting="texts", got=re.compile(got)):
        predict(scorer, pd.DataFrame([["a", "b"]], columns=columns))
