"""The table of metrics as TFMA computes it, against itself and TFMA's own metrics."""

import functools

import numpy as np
import pytest
import tensorflow_model_analysis as tfma

from benchmarks import evaluation as batches
from contracts import metrics
from modules.evaluation import tfma_metrics
from tests.nightly import nightly

pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module", params=[nightly(1), 2], ids=["alone", "with a champion"]
)
def models(request):
    return batches.MODELS[: request.param]


@pytest.fixture(scope="module")
def evaluate(models):
    """Evaluates the batches of a task once; returns them and the results."""

    @functools.cache
    def evaluate(name):
        task = batches.TASKS[name]
        extracts = batches.extract(task, [60, 1, 39], models)
        config = batches.configure(task, models)
        return extracts, batches.evaluate(extracts, config, by_batch=True)

    return evaluate


@pytest.mark.parametrize("name", batches.TASKS)
def test_every_metric_of_the_table_is_computed_from_all_rows_of_a_slice(
    name, models, evaluate
):
    task = batches.TASKS[name]
    extracts, evaluated = evaluate(name)
    results = evaluated["metrics"]
    output = task.label_kind.output
    for model in models:
        of_model = model if len(models) > 1 else ""
        parts = []
        for batch in extracts:
            labels = batch[tfma.constants.LABELS_KEY]
            outputs = batch[tfma.constants.PREDICTIONS_KEY]
            if of_model:
                labels, outputs = labels[model], outputs[model]
            outputs = outputs[output]
            if task.classes is None:
                outputs = outputs[:, 0]
            parts.append(metrics.Rows.of(labels[:, 0], outputs))
        expected = metrics.compute(task.classes, metrics.Rows.concatenate(parts))
        actual = {
            key.name: value
            for key, value in results[()].items()
            if key.model_name == of_model and not key.is_diff
        }
        assert actual.pop("example_count") == 100
        actual.pop("paired_test", None)
        assert actual == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    "name", ["two classes", nightly("scores"), nightly("three classes")]
)
def test_metrics_of_batches_equal_those_of_tfma_in_every_slice(name, models, evaluate):
    """The AUC up to TFMA's buckets, and where TFMA's value is not NaN."""
    task = batches.TASKS[name]
    extracts, actual = evaluate(name)
    expected = batches.evaluate(
        extracts, batches.with_tfma_metrics(task, models), by_batch=False
    )
    assert len(expected["metrics"]) == 5  # all rows, three lengths, one overlap
    compared = 0
    for slice_key, values in expected["metrics"].items():
        for key, value in values.items():
            (ours,) = (
                actual["metrics"][slice_key][other]
                for other in actual["metrics"][slice_key]
                if (other.name, other.model_name) == (key.name, key.model_name)
                and other.is_diff == key.is_diff
            )
            if key.name == "auc" and np.isnan(ours):
                assert value == 0  # a slice of one class
                continue
            tolerance = 1e-3 if key.name == "auc" else 1e-6
            assert np.isnan(value) or ours == pytest.approx(value, abs=tolerance), key
            compared += 1
    assert compared >= 5 * 3 * len(models)
    for slice_key, plots in expected["plots"].items():
        for key, plot in plots.items():
            assert cells(actual["plots"][slice_key][key]) == cells(plot)


def test_a_slice_with_an_output_that_is_not_finite_has_no_metrics():
    task, models = batches.TASKS["two classes"], batches.MODELS[:1]
    extracts = batches.extract(task, [300], models, [[np.nan, np.nan]])
    config = batches.configure(task, models)
    results = batches.evaluate(extracts, config, by_batch=True)
    values = {key.name: value for key, value in results["metrics"][()].items()}
    assert values.pop("example_count") == 300
    assert all(np.isnan(value) for value in values.values())
    (plot,) = results["plots"][()].values()
    assert sum(cells(plot)[1].values()) == 299


def cells(plot):
    (matrix,) = plot.matrices
    entries = {
        (entry.actual_class_id, entry.predicted_class_id): entry.num_weighted_examples
        for entry in matrix.entries
    }
    return matrix.threshold, entries


POSITIVE = np.array([0.1, 0.3, 0.6])


@pytest.mark.parametrize("names", [["candidate"], ["candidate", "baseline"]])
@pytest.mark.parametrize(
    ("key", "labels", "probabilities", "thresholds"),
    [
        ("class_id", [0, 1, 1], POSITIVE, (0.5, 0.25)),
        ("labels", [[0, 1], [1, 0]], [[0.1, 0.6], [0.3, 0.2]], (0.5, [0.25, 0.7])),
    ],
)
def test_each_model_is_counted_by_the_classes_that_it_exports(
    names, key, labels, probabilities, thresholds
):
    """A champion with another threshold keeps it."""
    is_several = len(names) > 1
    specs = [
        tfma.ModelSpec(name=name if is_several else "", prediction_key="probabilities")
        for name in names
    ]
    probabilities = np.array(probabilities)
    predicted = {
        name: (probabilities >= threshold).astype(int)
        for name, threshold in zip(("candidate", "baseline"), thresholds, strict=True)
    }
    if key == "class_id":
        probabilities = np.stack([1 - probabilities, probabilities], axis=1)
    outputs = {
        name: {"probabilities": probabilities, key: classes}
        for name, classes in predicted.items()
    }
    for name in names:
        combiner = tfma_metrics.gather_rows(
            tfma.EvalConfig(model_specs=specs), model_name=name if is_several else ""
        ).combiner
        element = tfma.metrics.StandardMetricInputs(
            label=np.array(labels), prediction=outputs if is_several else outputs[name]
        )
        rows = combiner.add_input(combiner.create_accumulator(), element)[0]
        assert rows.labels.tolist() == labels
        assert rows.predictions.tolist() == predicted[name].tolist()
