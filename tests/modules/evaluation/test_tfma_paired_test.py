"""The paired test of candidate and champion as TFMA computes it."""

import json

import numpy as np
import pytest
import tensorflow_model_analysis as tfma

from benchmarks import evaluation as batches
from contracts.metrics import Rows
from modules.evaluation import resampling
from tests.nightly import nightly

pytestmark = pytest.mark.slow


def paired_tests(task, extracts, models=batches.MODELS):
    """Returns the paired test of each slice, by the name of the model."""
    results = batches.evaluate(
        extracts, batches.configure(task, models), by_batch=True
    )["metrics"]
    return {
        slice_key: {
            key.model_name: json.loads(value)
            for key, value in metrics.items()
            if key.name == "paired_test"
        }
        for slice_key, metrics in results.items()
    }


def rows_of(task, extracts, mask):
    """Returns the rows of a slice by each model."""

    def join(column):
        return np.concatenate(
            [column(batch)[mask(batch)] for batch in extracts], dtype=np.float64
        )

    output = task.label_kind.output
    labels = join(lambda b: b[tfma.constants.LABELS_KEY][tfma.BASELINE_KEY][:, 0])
    outputs = [
        join(lambda b, name=name: b[tfma.constants.PREDICTIONS_KEY][name][output])
        for name in (tfma.BASELINE_KEY, tfma.CANDIDATE_KEY)
    ]
    if task.classes is None:
        outputs = [scores[:, 0] for scores in outputs]
    return [Rows.of(labels, values) for values in outputs]


@pytest.mark.parametrize(
    "name", ["two classes", nightly("scores"), nightly("three classes")]
)
def test_rows_of_both_models_are_paired_in_every_slice(name):
    task = batches.TASKS[name]
    extracts = batches.extract(task, [300, 1, 99])
    tests = paired_tests(task, extracts)
    features = tfma.constants.TRANSFORMED_FEATURES_KEY
    masks = {
        (): lambda batch: slice(None),
        (("pair_length", "20-39"),): lambda batch: (
            batch[features][tfma.BASELINE_KEY]["pair_length"] == b"20-39"
        ),
    }
    for slice_key, mask in masks.items():
        expected = resampling.paired_test(
            task, *rows_of(task, extracts, mask), task.metric
        )
        assert list(tests[slice_key]) == [tfma.CANDIDATE_KEY]
        actual = tests[slice_key][tfma.CANDIDATE_KEY]
        assert actual["rows"] == expected.rows
        assert actual["only_b_right"] == expected.only_b_right
        # Resamples draw rows by their index, and bundles may come in another order.
        for value in ("a", "b", "low", "high", "p_value"):
            assert actual[value] == pytest.approx(getattr(expected, value), abs=0.05)
    assert tests[()][tfma.CANDIDATE_KEY]["difference"] != 0


def test_a_model_without_a_champion_has_no_paired_test():
    task, models = batches.TASKS["two classes"], batches.MODELS[:1]
    tests = paired_tests(task, batches.extract(task, [50], models), models)
    assert tests[()] == {}
