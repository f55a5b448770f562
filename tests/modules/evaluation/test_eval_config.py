"""The Evaluator's configuration, and its results for exported models."""

import json
import math
import shutil

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import json_format
from tfx.types import standard_artifacts

from components import ModelVerdict
from components.evaluator import Evaluator
from components.evaluator.executor import Executor
from contracts.records.evaluation import Verdict
from contracts.settings.data import DataConfig
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from modules.evaluation import eval_config, tfma_metrics
from tests import exported

pytestmark = pytest.mark.slow

SENTENCE = TaskConfig(text_columns=["sentence"])
REGRESSION = TaskConfig(label_range=[0, 5])


def test_slices_have_no_thresholds_of_tfma():
    config = eval_config.build_eval_config(TaskConfig(), ["region"])
    keys = [list(spec.feature_keys) for spec in config.slicing_specs]
    assert keys == [[], ["pair_length"], ["word_overlap"], ["region"]]
    (spec,) = config.metrics_specs
    assert not spec.per_slice_thresholds
    assert not any(metric.per_slice_thresholds for metric in spec.metrics)


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        (SENTENCE, ["sentence_length"]),
        (TaskConfig(input="tokenized"), ["token_length"]),
        (REGRESSION, ["pair_length", "word_overlap"]),
        (
            TaskConfig(label_column="word_overlap"),
            ["pair_length", "model_word_overlap"],
        ),
    ],
)
def test_slices_depend_on_the_inputs_of_the_task(task, keys):
    config = eval_config.build_eval_config(task)
    assert [list(s.feature_keys) for s in config.slicing_specs][1:] == [
        [key] for key in keys
    ]


def artifact(directory):
    """Returns a model's artifact; without a model if the directory is empty."""
    model = standard_artifacts.Model()
    model.uri = str(directory)
    return model


def copy_model(source, directory):
    """Copies a SavedModel to where the Trainer writes one; returns the artifact."""
    shutil.copytree(source, directory / "Format-Serving")
    return artifact(directory)


class Parrots:
    """Two models, each of which predicts the number that one of the texts is.

    Args:
      root: The directory of the models and of the runs of the Evaluator.
      task: The task.
    """

    CANDIDATE, CHAMPION = "sentence1", "sentence2"

    def __init__(self, root, task):
        self.root = root
        self.task = task
        self._slice_columns = []
        self._regions = None
        self._runs = 0
        for column in (self.CANDIDATE, self.CHAMPION):
            self._save(column)

    def slice_by_region(self, regions):
        """Slices by a column."""
        self._regions = regions
        self._slice_columns = ["region"]

    def run(
        self,
        candidate,
        champion,
        labels,
        thresholds,
        max_regression=None,
        significance=0.0,
    ):
        """Evaluates scores, or probabilities of the second class.

        Returns:
          The verdict's metrics by name, and the verdict.
        """
        self._runs += 1
        root = self.root / f"run{self._runs}"
        model = copy_model(self.root / self.CANDIDATE, root / "model")
        baseline = artifact(root)
        if champion is not None:
            baseline = copy_model(self.root / self.CHAMPION, root / "champion")
            baseline.set_string_custom_property("pushed_destination", "serving/7")
        texts = zip(map(str, candidate), map(str, champion or candidate), strict=True)
        outputs = {
            "evaluation": standard_artifacts.ModelEvaluation(),
            "blessing": standard_artifacts.ModelBlessing(),
            "verdict": ModelVerdict(),
        }
        for name, output in outputs.items():
            output.uri = str(root / name)
        context = Executor.Context(
            beam_pipeline_args=[],
            tmp_dir=str(root),
            make_beam_pipeline_fn=lambda: beam.Pipeline(runner=exported.RUNNER),
        )
        Executor(context).Do(
            {
                "model": [model],
                "baseline_model": [baseline],
                "examples": [self._write_rows(root, list(texts), labels)],
            },
            {name: [output] for name, output in outputs.items()},
            {
                "eval_config": json_format.MessageToJson(
                    eval_config.build_eval_config(self.task, self._slice_columns)
                ),
                "module_path": tfma_metrics.__name__,
                "example_splits": json.dumps(["eval"]),
                "thresholds": json.dumps(thresholds),
                "max_regression": json.dumps(max_regression or {}),
                "settings": Sections(
                    task=self.task,
                    data=DataConfig(slice_columns=self._slice_columns),
                    evaluator=EvaluatorConfig(split="eval"),
                ).model_dump_json(include=Evaluator.READS),
                "significance": significance,
            },
        )
        verdict = Verdict.read(outputs["verdict"].uri)
        blessed = bool(outputs["blessing"].get_int_custom_property("blessed"))
        assert verdict.blessed == blessed
        (file,) = (root / "blessing").iterdir()
        assert file.name == ("BLESSED" if blessed else "NOT_BLESSED")
        return {metric.metric: metric for metric in verdict.metrics}, verdict

    def _write_rows(self, root, texts, labels):
        examples = standard_artifacts.Examples()
        examples.uri = str(root / "examples")
        examples.split_names = '["eval"]'
        rows = exported.rows_of(self.task, texts, labels)
        for row, region in zip(rows, self._regions or [None] * len(rows), strict=True):
            if region is not None:
                row["region"] = [region]
        directory = root / "examples" / "Split-eval"
        directory.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(directory / "data.gz"), "GZIP") as writer:
            for row in rows:
                writer.write(exported.serialize(row))
        return examples

    def _save(self, column):
        task = self.task

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def serve_examples(examples):
            spec = {column: tf.io.FixedLenFeature([], tf.string)}
            numbers = tf.strings.to_number(tf.io.parse_example(examples, spec)[column])
            if task.classes is None:
                return {"score": numbers}
            return {"probabilities": tf.stack([1 - numbers, numbers], axis=1)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def slice_features(examples):
            features = ("pair_length", "word_overlap")
            spec = {task.id_column: tf.io.FixedLenFeature([], tf.int64)}
            ids = tf.io.parse_example(examples, spec)[task.id_column]
            return dict.fromkeys(features, tf.where(ids < 20, "20-39", "0-19"))

        signatures = {
            "serve_examples": serve_examples,
            "slice_features": slice_features,
        }
        directory = str(self.root / column)
        tf.saved_model.save(tf.Module(), directory, signatures=signatures)


def probabilities(labels, right):
    """Returns probabilities by which the first so many rows are predicted right."""
    return [
        0.9 if bool(label) == (row < right) else 0.1 for row, label in enumerate(labels)
    ]


@pytest.mark.nightly
def test_a_model_that_is_nan_for_some_rows_is_refused(tmp_path):
    labels = [0, 1] * 100
    champion = probabilities(labels, 184)
    candidate = [
        math.nan if label == 0 and row >= 54 else probability
        for row, (label, probability) in enumerate(
            zip(labels, probabilities(labels, 200), strict=True)
        )
    ]
    assert sum(map(math.isnan, candidate)) == 73
    metrics, verdict = Parrots(tmp_path, TaskConfig()).run(
        candidate, champion, labels, {"accuracy": 0.0}, {"f1": 1.0}
    )
    assert not verdict.blessed
    assert verdict.failures == [
        "accuracy is nan, the threshold is 0.0000 [E-below-threshold]",
        "f1 is nan: it cannot be compared with the champion's 0.9200 [E-metric-nan]",
    ]
    assert metrics["accuracy"].champion == 0.92
    assert "accuracy cannot be compared: it is NaN" in verdict.comparison


@pytest.mark.nightly
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_champion_that_is_nan_blocks_no_candidate(tmp_path, broken):
    scores = [0.5, 1.5, 2.5, 3.5]
    metrics, verdict = Parrots(tmp_path, REGRESSION).run(
        scores, [*scores[:3], broken], scores, {"pearson": -1.0}, {"spearman": 0.1}
    )
    assert math.isnan(metrics["spearman"].champion)
    assert verdict.failures == []
    assert verdict.blessed


def test_a_candidate_exactly_at_its_bounds_is_blessed(tmp_path):
    """The names of TFMA's differences end in `diff`, as that of a class does here."""
    labels = [0, 1] * 100
    task = TaskConfig(classes=["up", "up_diff"])
    metrics, verdict = Parrots(tmp_path, task).run(
        probabilities(labels, 179),
        probabilities(labels, 185),
        labels,
        {"accuracy": 0.895, "recall/up_diff": 0.5},
        {"accuracy": 0.03},
    )
    assert (metrics["accuracy"].value, metrics["accuracy"].champion) == (0.895, 0.925)
    assert verdict.failures == []
    assert verdict.blessed
    assert metrics["recall/up"].value == 0.9
    assert metrics["recall/up_diff"].value == 0.89
    assert metrics["recall/up_diff"].champion == 0.92
    named = [metric.metric for metric in verdict.metrics]
    assert named[:2] == ["accuracy", "recall/up_diff"]
    assert set(metrics) == {*task.metric_table, "example_count"}


LABELS = [0, 1] * 100
CHAMPION = probabilities(LABELS, 184)
GATE = {"accuracy": 0.8}, {"accuracy": 0.05}, 0.05


RANDOM = np.random.default_rng(0).random(200).tolist()


FOOLED = {
    "it always predicts one class": ([0.9] * 200, "accuracy is 0.5000, the threshold"),
    "it learned shuffled labels": (RANDOM, "the threshold is 0.8000"),
    "its classes are swapped": ([1 - p for p in CHAMPION], "accuracy is 0.0800, the"),
    "it is NaN": ([math.nan] * 200, "accuracy is nan, the threshold"),
    "it is infinite": ([math.inf] * 200, "accuracy is nan, the threshold"),
    "it is beyond the bound": (
        probabilities(LABELS, 172),
        "accuracy is 0.8600, more than 0.0500 below the champion's 0.9200",
    ),
    "it is worse beyond noise, within the bound": (
        probabilities(LABELS, 176),
        "accuracy is 0.04 below the champion's: p = 0.0078 is below evaluator.signif",
    ),
    # Right where the champion is wrong, and wrong in 12 of the 20 rows of a slice.
    "a slice collapsed": (
        [
            1 - p if row < 12 else q
            for row, (p, q) in enumerate(
                zip(CHAMPION, probabilities(LABELS, 200), strict=True)
            )
        ],
        "in the slice pair_length 20-39 (20 rows), accuracy is 0.4000, 0.6 below",
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", FOOLED)
def test_gate_refuses_a_model_because(tmp_path, name):
    candidate, reason = FOOLED[name]
    parrots = Parrots(tmp_path, TaskConfig(metric="accuracy"))
    _, verdict = parrots.run(candidate, CHAMPION, LABELS, *GATE)
    assert not verdict.blessed
    assert any(reason in failure for failure in verdict.failures), verdict.failures


def test_gate_accepts_an_equal_model_and_refuses_one_that_is_worse(tmp_path):
    parrots = Parrots(tmp_path, TaskConfig(metric="accuracy"))
    _, verdict = parrots.run(CHAMPION, CHAMPION, LABELS, *GATE)
    assert verdict.blessed
    worse = probabilities(LABELS, 176)
    _, verdict = parrots.run(worse, CHAMPION, LABELS, *GATE)
    assert not verdict.blessed
    (reason,) = verdict.failures
    assert reason.startswith("accuracy is 0.04 below the champion's: p = 0.0078 is")
    assert reason in verdict.summary
    assert verdict.significance == 0.05


def test_slices_by_a_column_are_in_the_verdict(tmp_path):
    """Rows without a value are one; half of the rows of the north are wrong."""
    regions = [*[b"north"] * 40, *[None] * 60, *[b"south"] * 100]
    parrots = Parrots(tmp_path, TaskConfig())
    parrots.slice_by_region(regions)
    candidate = [
        1 - p if row < 20 else p for row, p in enumerate(probabilities(LABELS, 200))
    ]
    _, verdict = parrots.run(candidate, None, LABELS, {"accuracy": 0.8})
    assert verdict.blessed
    assert [
        (part.value, part.rows, part.metrics["accuracy"])
        for part in verdict.slices
        if part.feature == "region"
    ] == [("(missing)", 60, 1.0), ("north", 40, 0.5), ("south", 100, 1.0)]
