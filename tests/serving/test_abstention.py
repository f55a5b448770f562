"""Requests in which improbable classes are not predicted."""

import numpy as np
import pytest

from contracts.task import abstention
from serving.abstention import abstain
from tests.exported import PAIRS
from tests.serving.conftest import check_refused

pytestmark = pytest.mark.slow

ROWS = [{"question": first, "answer": second} for first, second in PAIRS]


def test_row_whose_class_is_improbable_has_none_and_is_counted(pairs):
    counter = "serving_abstained_rows_total"
    before = pairs.sample(counter)
    expected = pairs.post("pairs:predict", instances=ROWS).json()["predictions"]
    assert pairs.sample(counter) == before
    shares = sorted(max(row["probabilities"]) for row in expected)
    # That of a row itself, in 32 bits, is probable enough.
    least = shares[1]
    response = pairs.post("pairs:predict", instances=ROWS, min_probability=least)
    nothing = {"class": None, "class_id": None}
    assert response.json()["predictions"] == [
        {**row, **(nothing if max(row["probabilities"]) < least else {})}
        for row in expected
    ]
    assert pairs.sample(counter) == before + 1
    inputs = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    columns = pairs.post("pairs:predict", inputs=inputs, min_probability=1)
    assert columns.json()["outputs"]["class"] == [None] * len(ROWS)
    assert columns.json()["outputs"]["class_id"] == [None] * len(ROWS)
    assert pairs.sample(counter) == before + 1 + len(ROWS)


def test_rule_is_that_of_the_report_and_of_predict():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet([1, 1, 1], 300).astype(np.float32)
    probabilities[5] = np.nan
    class_ids = random.integers(0, 3, 300)
    outputs = {
        "class": np.array([b"a"] * 300, object),
        "class_id": class_ids,
        "probabilities": probabilities,
    }
    for least in (0.2, float(probabilities[7, class_ids[7]]), 0.7, 1.0):
        expected = abstention.abstains(probabilities, class_ids, least)
        masked, count = abstain(outputs, least)
        assert masked["class"].mask.tolist() == expected.tolist()
        assert masked["class_id"].mask.tolist() == expected.tolist()
        assert count == expected.sum() > 0


@pytest.mark.parametrize("least", [0, -0.1, 1.1, True, "0.5", [0.5]])
def test_least_probability_that_is_none_is_refused(pairs, least):
    response = pairs.post("pairs:predict", instances=ROWS, min_probability=least)
    allowed = "allowed: a number above 0 and up to 1; "
    check_refused(response, f'"min_probability": {least!r}; {allowed}')


def test_outputs_without_classes_cannot_be_abstained_from(half_plus_three, pairs):
    response = half_plus_three.post(
        "half_plus_three:predict", instances=[1.0], min_probability=0.5
    )
    check_refused(response, 'signature "serving_default" has y')
    options = {"signature_name": "tokenize", "min_probability": 0.5}
    response = pairs.post("pairs:predict", instances=ROWS, **options)
    check_refused(response, "a signature with class, class_id and probabilities")
