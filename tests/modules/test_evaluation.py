"""What the gate measures and bounds, and what the real Evaluator makes of it."""

import json
import shutil

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_model_analysis as tfma
from google.protobuf import json_format
from sklearn import metrics as sklearn_metrics
from tfx.components.evaluator.executor import Executor
from tfx.types import standard_artifacts

from modules import evaluation
from pipeline import report
from pipeline.config import Config, EvaluatorConfig
from pipeline.task import TaskConfig
from tests import exported as exported_lib
from tests import tiny

ROWS = 60
SENTENCE = TaskConfig(text_columns=["sentence"])
REGRESSION = TaskConfig(label_range=[0, 5])


def metric(config, name):
    (found,) = (
        metric
        for spec in config.metrics_specs
        for metric in spec.metrics
        if f'"{name}"' in metric.config
    )
    return found


def test_bounds_hold_on_all_rows_and_slices_are_reported_only():
    gate = EvaluatorConfig(
        thresholds={"accuracy": 0.8}, max_regression={"accuracy": 0.02, "f1": 0.01}
    )
    config = evaluation.build_eval_config(TaskConfig(), gate)
    (bound,) = metric(config, "accuracy").per_slice_thresholds
    assert list(bound.slicing_specs) == [tfma.SlicingSpec()]
    assert bound.threshold.value_threshold.lower_bound.value == 0.8
    change = bound.threshold.change_threshold
    assert change.absolute.value == -0.02
    assert change.direction == tfma.MetricDirection.HIGHER_IS_BETTER
    (bound,) = metric(config, "f1").per_slice_thresholds
    assert not bound.threshold.HasField("value_threshold")
    assert not metric(config, "auc").per_slice_thresholds
    keys = [list(spec.feature_keys) for spec in config.slicing_specs]
    assert keys == [[], ["pair_length"], ["word_overlap"]]


def test_more_classes_have_no_positive_one():
    task = TaskConfig(classes=["no", "maybe", "yes"])
    config = evaluation.build_eval_config(task, EvaluatorConfig())
    assert not any(s.binarize.class_ids.values for s in config.metrics_specs)
    names = [m.class_name for s in config.metrics_specs for m in s.metrics]
    assert "SparseCategoricalAccuracy" in names


@pytest.mark.parametrize("kind", exported_lib.TASKS)
def test_every_metric_of_a_task_can_be_bounded_to_tfmas_mind(kind):
    task = exported_lib.TASKS[kind]
    gate = EvaluatorConfig(thresholds=dict.fromkeys(task.metrics, 0.5))
    config = evaluation.build_eval_config(task, gate)
    tfma.utils.verify_eval_config(config)
    for name in task.metrics:
        assert metric(config, name).per_slice_thresholds


@pytest.mark.parametrize(
    ("task", "keys"),
    [
        (SENTENCE, ["sentence_length"]),
        (TaskConfig(input="tokenized"), ["token_length"]),
        (REGRESSION, ["pair_length", "word_overlap"]),
    ],
)
def test_slices_are_those_that_the_examples_allow(task, keys):
    config = evaluation.build_eval_config(task, EvaluatorConfig())
    assert [list(s.feature_keys) for s in config.slicing_specs][1:] == [
        [key] for key in keys
    ]


def random_texts(columns):
    """Returns rows that differ, so that no tie hangs on the last bit of a score."""
    random = np.random.default_rng(0)
    return [
        tuple(" ".join(random.choice(tiny.WORDS, 6)) for _ in range(columns))
        for _ in range(ROWS)
    ]


class Evaluation:
    """Runs TFX's Evaluator on an exported model."""

    def __init__(self, root, exported, vocab_file):
        """Makes texts for the model."""
        self.root = root
        self.exported = exported
        self.task = exported.task
        self.texts = random_texts(len(exported.task.text_columns))
        self._vocab_file = vocab_file
        self._runs = 0

    def predict(self):
        """Returns the exported model's own logits or scores."""
        model = tf.saved_model.load(str(self.exported.directory))
        rows = exported_lib.rows_of(self.task, self.texts, vocab_file=self._vocab_file)
        outputs = model.signatures["serve_examples"](
            examples=tf.constant([exported_lib.serialize(row) for row in rows])
        )
        name = "score" if self.task.is_regression else "logits"
        return outputs[name].numpy()

    def run(self, labels, gate, *, has_champion=False):
        """Returns the metrics as the report has them, and whether it was blessed."""
        self._runs += 1
        root = self.root / f"run{self._runs}"
        inputs = {"model": [self._model(root)], "examples": [self._data(root, labels)]}
        if has_champion:
            inputs["baseline_model"] = inputs["model"]
        result = standard_artifacts.ModelEvaluation()
        blessing = standard_artifacts.ModelBlessing()
        result.uri, blessing.uri = str(root / "evaluation"), str(root / "blessing")
        config = evaluation.build_eval_config(self.task, gate)
        Executor(Executor.Context(beam_pipeline_args=[], tmp_dir=str(root))).Do(
            inputs,
            {"evaluation": [result], "blessing": [blessing]},
            {
                "eval_config": json_format.MessageToJson(config),
                "example_splits": json.dumps(["eval"]),
            },
        )
        settings = Config(
            name="test",
            task=self.task,
            data={"source": "data"},
            encoder={"source": "encoder"},
            evaluator=gate,
        )
        found = report.read_metrics(result.uri, settings, has_champion=has_champion)
        is_blessed = bool(blessing.get_int_custom_property("blessed"))
        return {metric.name: metric for metric in found}, is_blessed

    def _model(self, root):
        model = standard_artifacts.Model()
        model.uri = str(root / "model")
        shutil.copytree(self.exported.directory, root / "model" / "Format-Serving")
        return model

    def _data(self, root, labels):
        examples = standard_artifacts.Examples()
        examples.uri = str(root / "examples")
        examples.split_names = '["eval"]'
        split = root / "examples" / "Split-eval"
        split.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(split / "data.gz"), "GZIP") as writer:
            for row in exported_lib.rows_of(
                self.task, self.texts, labels, self._vocab_file
            ):
                writer.write(exported_lib.serialize(row))
        return examples


@pytest.fixture
def evaluate(export, vocab_file, tmp_path):
    """Gives what evaluates the exported model of a kind of task."""
    return lambda kind: Evaluation(tmp_path, export(kind), vocab_file)


def labels_near(values, share, classes):
    """Returns labels that agree with the values for a share of the rows."""
    random = np.random.default_rng(0)
    noise = random.integers(0, classes, len(values))
    return np.where(random.random(len(values)) < share, values, noise).tolist()


def test_matthews_of_two_classes_is_that_of_scikit_learn(evaluate):
    run = evaluate("sentences")
    predicted = run.predict().argmax(1)
    labels = labels_near(predicted, 0.7, 2)
    expected = sklearn_metrics.matthews_corrcoef(labels, predicted)
    gate = EvaluatorConfig(
        thresholds={"matthews": round(expected, 4) - 0.001},
        max_regression={"matthews": 0.01},
    )
    metrics, is_blessed = run.run(labels, gate, has_champion=True)
    assert is_blessed
    assert metrics["matthews"].candidate == pytest.approx(expected, abs=1e-5)
    assert metrics["matthews"].champion == metrics["matthews"].candidate
    assert metrics["matthews"].failures == []
    f1 = sklearn_metrics.f1_score(labels, predicted)
    assert metrics["f1"].candidate == pytest.approx(f1, abs=1e-5)
    assert metrics["accuracy"].candidate == pytest.approx(
        np.mean(predicted == labels), abs=1e-5
    )


def test_macro_f1_of_three_classes_is_that_of_scikit_learn(evaluate):
    """On tokenized examples."""
    run = evaluate("tokens of pairs")
    predicted = run.predict().argmax(1)
    labels = labels_near(predicted, 0.5, 3)
    expected = sklearn_metrics.f1_score(labels, predicted, average="macro")
    gate = EvaluatorConfig(thresholds={"f1": round(expected, 4) + 0.001})
    metrics, is_blessed = run.run(labels, gate)
    assert not is_blessed
    assert metrics["f1"].candidate == pytest.approx(expected, abs=1e-5)
    assert metrics["f1"].failures
    assert metrics["accuracy"].candidate == pytest.approx(
        np.mean(predicted == labels), abs=1e-5
    )


def test_correlations_of_a_regression_are_those_of_scipy(evaluate):
    scores = evaluate("scores")
    predicted = scores.predict().astype(float)
    random = np.random.default_rng(0)
    labels = predicted + random.normal(scale=predicted.std(), size=ROWS)
    pearson = scipy.stats.pearsonr(labels, predicted)[0]
    spearman = scipy.stats.spearmanr(labels, predicted)[0]
    expected = {
        "pearson": pearson,
        "spearman": spearman,
        "pearson_spearman": (pearson + spearman) / 2,
        "mse": np.mean((labels - predicted) ** 2),
        "mae": np.mean(np.abs(labels - predicted)),
    }
    gate = EvaluatorConfig(thresholds={"pearson_spearman": 0.1})
    metrics, is_blessed = scores.run(labels.tolist(), gate)
    assert is_blessed
    assert set(metrics) == {*expected, "example_count"}
    for name, value in expected.items():
        assert metrics[name].candidate == pytest.approx(value, abs=1e-5)


def test_correlation_that_is_not_a_number_is_refused_and_shown(evaluate):
    gate = EvaluatorConfig(thresholds={"pearson_spearman": -1})
    metrics, is_blessed = evaluate("scores").run([2.5] * ROWS, gate)
    assert not is_blessed
    assert metrics["pearson_spearman"].failures == [
        "pearson_spearman is nan, the threshold is -1.0000"
    ]
