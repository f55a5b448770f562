"""The Evaluator's configuration, and its results for exported models."""

import json
import math
import shutil

import apache_beam as beam
import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
from google.protobuf import json_format
from sklearn import metrics as sklearn_metrics
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
from modules.evaluation.prediction_files import Predictions
from modules.training import model_run
from tests import exported as exported_lib
from tests import tiny

pytestmark = pytest.mark.slow

ROWS = 60
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


def random_texts(columns):
    """Returns rows that differ, so that no tie hangs on the last bit of a score."""
    random = np.random.default_rng(0)
    return [
        tuple(" ".join(random.choice(tiny.WORDS, 6)) for _ in range(columns))
        for _ in range(ROWS)
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


class Evaluation:
    """Runs the Evaluator on an exported model."""

    def __init__(self, root, exported, vocab_file):
        """Makes texts for the model."""
        self.root = root
        self.exported = exported
        self.task = exported.task
        self.texts = random_texts(len(exported.task.text_columns))
        self.champion = exported.directory
        self.columns = {}  # by name, a list of bytes or None for each row
        self.slice_columns = []
        self.settings = {"linear_model": "ignore"}  # of `evaluator`
        self.train_rows = None  # of the evaluated rows; None trains on all
        self._vocab_file = vocab_file
        self._runs = 0

    def predict(self):
        """Returns the exported model's own logits or scores."""
        model = tf.saved_model.load(str(self.exported.directory))
        rows = exported_lib.rows_of(self.task, self.texts, vocab_file=self._vocab_file)
        outputs = model.signatures["serve_examples"](
            examples=tf.constant([exported_lib.serialize(row) for row in rows])
        )
        name = "score" if self.task.classes is None else "logits"
        return outputs[name].numpy()

    def run(
        self,
        labels,
        thresholds,
        max_regression=None,
        significance=0.0,
        *,
        has_champion=False,
    ):
        """Returns the verdict's metrics by name, and the verdict."""
        self._runs += 1
        root = self.root / f"run{self._runs}"
        model = copy_model(self.exported.directory, root / "model")
        champion = artifact(root)
        if has_champion:
            champion = copy_model(self.champion, root / "champion")
            champion.set_string_custom_property("pushed_destination", "serving/7")
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
            make_beam_pipeline_fn=lambda: beam.Pipeline(runner=exported_lib.RUNNER),
        )
        Executor(context).Do(
            {
                "model": [model],
                "baseline_model": [champion],
                "examples": [self._data(root, labels)],
                "model_run": [self._record(root, labels)],
            },
            {name: [output] for name, output in outputs.items()},
            {
                "eval_config": json_format.MessageToJson(
                    eval_config.build_eval_config(self.task, self.slice_columns)
                ),
                "module_path": tfma_metrics.__name__,
                "example_splits": json.dumps(["eval"]),
                "thresholds": json.dumps(thresholds),
                "max_regression": json.dumps(max_regression or {}),
                "settings": Sections(
                    task=self.task,
                    data=DataConfig(slice_columns=self.slice_columns),
                    evaluator=EvaluatorConfig(split="eval", **self.settings),
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

    def _data(self, root, labels):
        examples = standard_artifacts.Examples()
        examples.uri = str(root / "examples")
        examples.split_names = '["train", "eval"]'
        split = root / "examples" / "Split-eval"
        split.mkdir(parents=True)
        # The linear model is trained on evaluated rows.
        train = split.with_name("Split-train")
        train.mkdir()
        rows = exported_lib.rows_of(self.task, self.texts, labels, self._vocab_file)
        for index, row in enumerate(rows):
            for name, values in self.columns.items():
                if values[index] is not None:
                    row[name] = [values[index]]
        for directory, part in ((split, rows), (train, rows[: self.train_rows])):
            with tf.io.TFRecordWriter(str(directory / "data.gz"), "GZIP") as writer:
                for row in part:
                    writer.write(exported_lib.serialize(row))
        return examples

    def _record(self, root, labels):
        """Writes a model's predictions, which only the linear comparison reads."""
        record = standard_artifacts.ModelRun()
        record.uri = str(root / "record")
        if "linear_model" in self.settings:
            return record
        chances = np.array([float(first) for first, _ in self.texts])
        predictions = Predictions(
            np.arange(len(labels)),
            np.array(labels),
            np.stack([1 - chances, chances], axis=1),
            np.zeros(len(labels)),
        )
        path = root / "record" / "predictions" / "eval.tsv"
        model_run.write_predictions(str(path), self.task, predictions)
        return record


@pytest.fixture
def evaluate(export, vocab_file, tmp_path):
    """Returns a function from a kind of task to the `Evaluation` of its model."""
    return lambda kind: Evaluation(tmp_path, export(kind), vocab_file)


def labels_near(values, share, classes):
    """Returns labels that agree with the values for a share of the rows."""
    random = np.random.default_rng(0)
    noise = random.integers(0, classes, len(values))
    return np.where(random.random(len(values)) < share, values, noise).tolist()


@pytest.mark.nightly
def test_matthews_of_two_classes_equals_that_of_scikit_learn(evaluate):
    run = evaluate("sentences")
    predicted = run.predict().argmax(1)
    labels = labels_near(predicted, 0.7, 2)
    expected = sklearn_metrics.matthews_corrcoef(labels, predicted)
    thresholds = {"matthews": round(expected, 4) - 0.001}
    metrics, verdict = run.run(
        labels, thresholds, {"matthews": 0.01}, has_champion=True
    )
    assert verdict.blessed
    assert verdict.comparison == (
        "compared with the champion serving/7: accuracy is equal (60 rows)"
    )
    assert metrics["matthews"].value == pytest.approx(expected, abs=1e-5)
    assert metrics["matthews"].champion == metrics["matthews"].value
    assert metrics["matthews"].failures == []
    f1 = sklearn_metrics.f1_score(labels, predicted)
    assert metrics["f1"].value == pytest.approx(f1, abs=1e-5)
    assert metrics["accuracy"].value == pytest.approx(
        np.mean(predicted == labels), abs=1e-5
    )


@pytest.mark.nightly
def test_macro_f1_of_three_classes_equals_that_of_scikit_learn(evaluate):
    """On tokenized examples."""
    run = evaluate("tokens of pairs")
    predicted = run.predict().argmax(1)
    labels = labels_near(predicted, 0.5, 3)
    expected = sklearn_metrics.f1_score(labels, predicted, average="macro")
    metrics, verdict = run.run(labels, {"f1": round(expected, 4) + 0.001})
    assert not verdict.blessed
    assert verdict.champion is None
    assert verdict.paired is None
    assert metrics["f1"].value == pytest.approx(expected, abs=1e-5)
    assert metrics["f1"].failures
    assert metrics["accuracy"].value == pytest.approx(
        np.mean(predicted == labels), abs=1e-5
    )


@pytest.mark.nightly
def test_correlations_of_a_regression_equal_those_of_scipy(evaluate):
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
        "loss": np.mean((labels - predicted) ** 2),
    }
    metrics, verdict = scores.run(
        labels.tolist(), {"pearson_spearman": 0.1}, {"pearson_spearman": 0.01}
    )
    assert verdict.blessed
    comparison = "no other version is served: only absolute thresholds apply"
    assert verdict.comparison == comparison
    assert set(metrics) == {*expected, "example_count"}
    for name, value in expected.items():
        assert metrics[name].value == pytest.approx(value, abs=1e-5)


@pytest.mark.nightly
def test_label_named_as_a_slice_is_evaluated(evaluate):
    scores = evaluate("tokens of sentences")
    predicted = scores.predict().astype(float)
    metrics, verdict = scores.run(predicted.tolist(), {"pearson": 0.99})
    assert verdict.blessed
    assert metrics["mse"].value == pytest.approx(0, abs=1e-9)
    assert {part.feature for part in verdict.slices} == {"model_token_length"}


@pytest.mark.nightly
def test_correlation_that_is_nan_is_refused_and_shown(evaluate):
    metrics, verdict = evaluate("scores").run([2.5] * ROWS, {"pearson_spearman": -1})
    assert not verdict.blessed
    assert metrics["pearson_spearman"].failures == [
        "pearson_spearman is nan, the threshold is -1.0000"
    ]


class Parrots:
    """Two models, each of which predicts the number that one of the texts is."""

    CANDIDATE, CHAMPION = "sentence1", "sentence2"

    def __init__(self, root, task):
        """Writes the models."""
        self._evaluation = Evaluation(root, self._save(root, task, self.CANDIDATE), "")
        self._evaluation.champion = self._save(root, task, self.CHAMPION).directory

    def slice_by(self, column, values, thresholds):
        """Slices by a column with thresholds, of slices with 30 rows or more."""
        self._evaluation.columns = {column: values}
        self._evaluation.slice_columns = [column]
        self._evaluation.settings["slice_thresholds"] = {column: thresholds}

    def compare_with_a_linear_model(self, train_rows=None):
        """Compares as by default, with a linear model that sees the evaluated rows.

        Args:
          train_rows: How many of them it sees; None is all.
        """
        del self._evaluation.settings["linear_model"]
        self._evaluation.train_rows = train_rows

    def run(self, candidate, champion, labels, *bounds):
        """Evaluates predictions: scores, or probabilities of the second class.

        Args:
          candidate: The predictions of the candidate.
          champion: Those of the champion; None without one.
          labels: The labels.
          *bounds: Thresholds, largest regressions, and the significance.
        """
        pairs = zip(map(str, candidate), map(str, champion or candidate), strict=True)
        self._evaluation.texts = list(pairs)
        return self._evaluation.run(labels, *bounds, has_champion=champion is not None)

    def _save(self, root, task, column):
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
        tf.saved_model.save(tf.Module(), str(root / column), signatures=signatures)
        return exported_lib.Exported(task, root / column, np.empty(0))


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
        "accuracy is nan, the threshold is 0.0000",
        "f1 is nan: it cannot be compared with the champion's 0.9200",
    ]
    assert metrics["accuracy"].champion == 0.92
    assert "accuracy cannot be compared: it is NaN" in verdict.comparison


@pytest.mark.nightly
def test_a_first_model_that_is_nan_is_refused_without_a_threshold(tmp_path):
    labels = [0, 1] * 4
    parrots = Parrots(tmp_path, TaskConfig())
    nan = [math.nan, *probabilities(labels, 8)[1:]]
    _, verdict = parrots.run(nan, None, labels, {}, {"f1": 1.0})
    assert not verdict.blessed
    assert verdict.failures == ["f1 is nan"]
    _, verdict = parrots.run(probabilities(labels, 4), None, labels, {}, {"f1": 1.0})
    assert verdict.blessed


SCORES = [0.5, 1.5, 2.5, 3.5]
BROKEN = pytest.mark.parametrize("broken", [math.nan, math.inf])
BOUNDS = {"pearson": -1.0}, {"spearman": 0.1}


@pytest.mark.nightly
@BROKEN
def test_a_champion_that_is_nan_blocks_no_candidate(tmp_path, broken):
    champion = [*SCORES[:3], broken]
    metrics, verdict = Parrots(tmp_path, REGRESSION).run(
        SCORES, champion, SCORES, *BOUNDS
    )
    assert math.isnan(metrics["spearman"].champion)
    assert verdict.failures == []
    assert verdict.blessed


@pytest.mark.nightly
@BROKEN
def test_a_candidate_that_is_nan_as_its_champion_is_refused(tmp_path, broken):
    scores = [*SCORES[:3], broken]
    _, verdict = Parrots(tmp_path, REGRESSION).run(scores, scores, SCORES, *BOUNDS)
    assert not verdict.blessed
    assert verdict.failures == [
        "pearson is nan, the threshold is -1.0000",
        "spearman is nan: it cannot be compared with the champion's nan",
    ]


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
RANDOM = np.random.default_rng(0).random(200).tolist()
GATE = {"accuracy": 0.8}, {"accuracy": 0.05}, 0.05
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


# Half of the rows of the north are wrong, and all of the 20 of the east.
REGIONS = [*[b"north"] * 40, *[b"east"] * 20, *[None] * 40, *[b"south"] * 100]
BY_REGION = [
    1 - p if row < 20 or 40 <= row < 60 else p
    for row, p in enumerate(probabilities(LABELS, 200))
]


def test_first_model_that_is_bad_in_a_slice_by_a_column_is_refused(tmp_path):
    """Slices of few rows are not judged, and rows without a value are one."""
    parrots = Parrots(tmp_path, TaskConfig())
    parrots.slice_by("region", REGIONS, {"accuracy": 0.7, "recall/equivalent": 0.4})
    _, verdict = parrots.run(BY_REGION, None, LABELS, {"accuracy": 0.8})
    assert not verdict.blessed
    assert verdict.failures == [
        "in the slice region north (40 rows), by evaluator.slice_thresholds.region: "
        "accuracy is 0.5000, the threshold is 0.7000 [E-below-threshold]"
    ]
    assert [
        (part.value, part.rows, part.metrics["accuracy"], part.thresholds)
        for part in verdict.slices
        if part.feature == "region"
    ] == [
        ("(missing)", 40, 1.0, {"accuracy": 0.7}),
        ("east", 20, 0.0, {}),
        ("north", 40, 0.5, {"accuracy": 0.7}),  # 20 rows count for the recall
        ("south", 100, 1.0, {"accuracy": 0.7, "recall/equivalent": 0.4}),
    ]


@pytest.mark.nightly
def test_slices_by_a_column_are_compared_with_the_champion(tmp_path):
    parrots = Parrots(tmp_path, TaskConfig())
    parrots.slice_by("region", REGIONS, {"accuracy": 0.4})
    champion = probabilities(LABELS, 150)  # worse on all rows, and in the south
    _, verdict = parrots.run(BY_REGION, champion, LABELS, {}, {"accuracy": 0.2}, 0.05)
    assert not verdict.blessed
    judged = [part for part in verdict.slices if part.thresholds]
    assert [part.champion["accuracy"] for part in judged] == [1.0, 1.0, 0.5]
    east, north = [text for text in verdict.failures if "region" in text]
    assert east.startswith("in the slice region east (20 rows), accuracy is 0.0000, 1 ")
    assert north.startswith(
        "in the slice region north (40 rows), accuracy is 0.5000, 0."
    )


def test_model_that_is_worse_than_a_linear_one_is_refused_by_default(tmp_path):
    """The linear model learns to predict the label of each text."""
    parrots = Parrots(tmp_path, TaskConfig())
    parrots.compare_with_a_linear_model()
    # One more word for each label, so that the texts decide it.
    worse = [p + label / 100 for p, label in zip(CHAMPION, LABELS, strict=True)]
    _, verdict = parrots.run(worse, None, LABELS, {"accuracy": 0.8}, {}, 0.05)
    assert not verdict.blessed
    (reason,) = verdict.failures
    assert reason.startswith(
        "accuracy is 0.08 below that of a linear model on words, trained on 200 rows: "
        "p = 3.1e-05 is below evaluator.significance (0.05), on 200 rows; check"
    )
    assert verdict.linear_model.rows == 200
    assert reason in verdict.summary
    _, verdict = parrots.run(CHAMPION, None, LABELS, {"accuracy": 0.8}, {}, 0.05)
    assert verdict.blessed
    assert verdict.linear_model.paired.difference == 0


def test_first_model_that_is_worse_than_a_linear_one_in_a_slice_is_refused(tmp_path):
    """The linear model knows the words of the north, and none of the other rows."""
    parrots = Parrots(tmp_path, TaskConfig())
    parrots.slice_by("region", REGIONS, {})
    parrots.compare_with_a_linear_model(train_rows=40)
    right = probabilities(LABELS, 200)
    north = [1 - p if row < 20 else p for row, p in enumerate(right[:40])]
    # One more word for each label, so that the texts decide it.
    north = [p + label / 100 for p, label in zip(north, LABELS[:40], strict=True)]
    candidate = [*north, *(p + 0.02 for p in right[40:])]
    _, verdict = parrots.run(candidate, None, LABELS, {"accuracy": 0.8}, {}, 0.05)
    assert not verdict.blessed
    (reason,) = (reason for reason in verdict.failures if "region" in reason)
    assert reason.startswith(
        "in the slice region north (40 rows), accuracy is 0.5000, 0.5 below a linear "
        "model's 1.0000: p = "
    )
    assert reason in verdict.summary
    regions = [part for part in verdict.slices if part.feature == "region"]
    assert all(part.linear is not None for part in regions)
