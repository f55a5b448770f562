"""Older versions on the rows of a run."""

import json
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf
from tfx.orchestration.portable import data_types
from tfx.types import standard_artifacts

from components import ModelAges
from components.older_versions import OlderVersions
from components.older_versions.component import Driver, OlderVersions_Executor
from contracts.records import ages as records_of_ages
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.settings.serving import ServingConfig
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model, served_versions
from modules.evaluation.prediction_files import Predictions
from modules.training import model_run
from tests import records, served, warm_probe

pytestmark = pytest.mark.slow

TASK = TaskConfig(classes=["short", "long"])
ROWS = 60
NEW_SLANG = range(20)  # rows with a word that the old model does not know
DAY = 86_400_000
NOW = int(time.time() * 1000)
LATER, EARLIER = NOW - 40 * DAY, NOW - 92 * DAY


def by_first(left, right):
    """Predicts `long` for a first text with an "a", which is right in all rows."""
    return _two(tf.strings.regex_full_match(left, ".*a.*"))


def without_slang(left, right):
    """Knows only the older word for it."""
    return _two(tf.strings.regex_full_match(left, ".*aa.*"))


def not_finite(left, right):
    return tf.fill([tf.size(left), 2], np.float32("nan"))


def _two(is_long):
    return tf.one_hot(tf.cast(is_long, tf.int32), 2, 0.9, 0.1)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Exports a model for each way to predict."""
    made = {}
    for predict in (by_first, without_slang, not_finite):
        root = served.save_toy(tmp_path_factory.mktemp(predict.__name__), predict)
        made[predict] = root / "Format-Serving"
        exported_model.write_description(
            str(made[predict]), exported_model.describe_task(TASK)
        )
    return made


@pytest.fixture
def measure(tmp_path, monkeypatch, models):
    """Measures versions of models in a run; returns the result."""
    warm_probe.install(monkeypatch)
    labels = np.arange(ROWS) % 2
    words = ["a" if index in NEW_SLANG else "aa" for index in range(ROWS)]
    texts = [word if label else "o" for word, label in zip(words, labels, strict=True)]

    def measure(
        versions,
        wrong=(),
        ids=range(ROWS),
        rows=1000,
        with_driver=True,
        is_finite=True,
        splitting=None,
    ):
        directory = tmp_path / "serving"
        for number, predict in versions.items():
            served_versions.push(str(models[predict]), str(directory), str(number))
        examples = standard_artifacts.Examples()
        examples.uri, examples.split_names = str(tmp_path / "examples"), '["eval"]'
        rows_of = zip(texts, labels, ids, strict=True)
        content = [
            records.example(sentence1=[t.encode()], sentence2=[b""], label=[n], idx=[i])
            for t, n, i in rows_of
        ]
        records.write(tmp_path / "examples" / "Split-eval" / "data.gz", content)
        candidate = standard_artifacts.ModelRun()
        candidate.uri = str(tmp_path / "record")
        predicted = np.where(np.isin(np.arange(ROWS), wrong), 1 - labels, labels)
        model_run.write_predictions(
            f"{candidate.uri}/predictions/eval.tsv",
            TASK,
            Predictions(
                np.array(ids),
                labels,
                np.eye(2)[predicted] if is_finite else np.full((ROWS, 2), np.nan),
                np.zeros(ROWS),
            ),
        )
        if not (tmp_path / "new").exists():
            shutil.copytree(models[by_first], tmp_path / "new")
            (tmp_path / "new" / "fingerprint.pb").write_bytes(b"of the new model")
        exported_model.write_digest(str(tmp_path / "new"), candidate.uri)
        sections = Sections(
            task=TASK,
            evaluator=EvaluatorConfig(split="eval", older_version_rows=rows),
            serving=ServingConfig(max_memory_bytes=4 << 30, timeout_seconds=60),
        )
        properties = {
            "directory": str(directory),
            "settings": sections.model_dump_json(include=OlderVersions.READS),
            "splitting": json.dumps(splitting),
            "fingerprint": "",
        }
        inputs = {"candidate": [candidate], "examples": [examples]}
        if with_driver:
            info = data_types.ExecutionInfo(
                input_dict=inputs, exec_properties=properties, output_dict={}
            )
            version = Driver(None).run(info).exec_properties["version"].string_value
            properties["version"] = version
        ages = ModelAges()
        ages.uri = str(tmp_path / "ages")
        OlderVersions_Executor().Do(inputs, {"ages": [ages]}, properties)
        return records_of_ages.ModelAges.read(ages.uri)

    return measure


def test_older_version_that_is_worse_on_new_rows_shows_how_the_model_ages(measure):
    ages = measure({LATER: by_first, EARLIER: without_slang})
    same, old = ages.versions
    assert (ages.rows, ages.measured.value) == (ROWS, 1.0)
    assert (same.version, old.version) == (str(LATER), str(EARLIER))
    assert [v.age_days for v in ages.versions] == pytest.approx([40, 92], abs=0.1)
    assert same.measured.value == 1.0
    assert old.measured.value == pytest.approx(1 - 10 / ROWS)
    assert old.measured.interval[0] < 1 - 10 / ROWS < old.measured.interval[1]
    assert old.paired.difference == pytest.approx(10 / ROWS)
    assert old.paired.p_value < 0.01
    assert ages.warnings == []
    assert ages.conclusion == (
        f"version {EARLIER} (92 days old) is worse: accuracy is 0.833 instead of 1.000 "
        "on 60 rows of eval (p = 0.0039); the model ages, if the settings are the same"
    )


def test_older_version_that_is_better_is_a_warning(measure, caplog):
    ages = measure({LATER: by_first}, wrong=range(15))
    (warning,) = ages.warnings
    assert warning in caplog.text
    assert warning.startswith(
        f"version {LATER} (40 days old) is better than the new model: accuracy is "
        "1.000 instead of 0.750 on 60 rows of eval (p = "
    )


def test_difference_that_may_be_noise_is_no_sign_of_ageing(measure):
    ages = measure({LATER: by_first, EARLIER: by_first}, wrong=[0], with_driver=False)
    assert ages.warnings == []
    assert ages.conclusion.startswith(
        f"no sign of ageing: accuracy of version {EARLIER} (92 days old) and of newer "
    )
    assert ages.conclusion.endswith("retraining may be unnecessary")


@pytest.mark.parametrize("with_driver", [True, False], ids=["local", "cluster"])
def test_first_run_predicts_nothing(measure, with_driver, monkeypatch):
    monkeypatch.setattr("components.older_versions.measurement.check_model", None)
    ages = measure({}, with_driver=with_driver)
    assert (ages.versions, ages.conclusion, ages.warnings) == ([], "", [])


def test_versions_that_cannot_be_measured_are_named_and_the_others_are_measured(
    measure, models, tmp_path
):
    other = shutil.copytree(models[by_first], tmp_path / "other")
    described = {**exported_model.describe_task(TASK), "classes": ["no", "yes"]}
    exported_model.write_description(str(other), described)
    broken = NOW - 10 * DAY
    served_versions.push(str(other), str(tmp_path / "serving"), str(LATER))
    ages = measure({broken: not_finite, EARLIER: by_first})
    assert [version.problem for version in ages.versions] == [
        "signature 'serve_examples', all rows at once: output 'probabilities' is not "
        "finite in 60 of 60 rows [E-serving-output]",
        "another task: classes ['no', 'yes'] instead of ['short', 'long']",
        "",
    ]
    assert ages.versions[2].measured.value == 1.0
    assert ages.conclusion.startswith("no sign of ageing")


def test_damaged_version_is_named(measure, models, tmp_path):
    pushed = tmp_path / "serving" / str(LATER)
    served_versions.push(str(models[by_first]), str(pushed.parent), pushed.name)
    graph = pushed / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[::-1])
    ages = measure({})
    (version,) = ages.versions
    assert "saved_model.pb differs from the file that was pushed" in version.problem
    assert ages.conclusion == version.sentence


def test_version_says_which_data_it_was_trained_on(measure, models, tmp_path):
    directory = tmp_path / "serving"
    served_versions.push(str(models[by_first]), str(directory), str(LATER))
    evaluation = {"split": "eval", "rows": 60, "metric": "accuracy", "metrics": {}}
    recorded = {**evaluation, "data": "span-7", "data_version": "0123456789"}
    served_versions.write_evaluation(str(directory / str(LATER)), recorded)
    (version,) = measure({}).versions
    assert version.name == (
        f"version {LATER} (40 days old, trained on span-7 (01234567))"
    )


def test_version_whose_data_were_split_in_another_way_is_not_compared(
    measure, models, tmp_path
):
    directory = tmp_path / "serving"
    splitting = {"test_size": 0.2, "eval_size": 0.1}
    for number, data in ((LATER, {}), (LATER - 1, splitting)):
        served_versions.push(str(models[by_first]), str(directory), str(number))
        evaluation = {"split": "eval", "rows": 60, "metric": "accuracy", "metrics": {}}
        recorded = {**evaluation, "data": "a.csv", "data_version": "old"}
        recorded["splitting"] = data
        served_versions.write_evaluation(str(directory / str(number)), recorded)
    other, same = measure({}, splitting=splitting).versions
    assert (same.problem, other.measured) == ("", None)
    assert other.problem.startswith("its data were split by other settings of data")
    # Without a splitting, as of spans, all are compared.
    versions = measure({}).versions
    assert [version.problem for version in versions] == ["", ""]


def test_new_model_that_is_nan_is_compared_with_no_conclusion(measure):
    ages = measure({LATER: by_first}, is_finite=False)
    assert ages.warnings == []
    assert np.isnan(ages.versions[0].paired.difference)
    assert np.isnan(ages.measured.value)


def test_more_rows_than_the_limit_are_a_sample_that_both_models_predict(measure):
    ages = measure({LATER: by_first}, wrong=range(30), rows=20)
    assert ages.rows == ages.versions[0].paired.rows == 20
    assert ages.measured.value == ages.versions[0].paired.b
    assert 0.2 < ages.measured.value < 0.8


def test_rows_without_unique_ids_have_metrics_but_no_test(measure):
    ages = measure({LATER: by_first}, ids=[0] * ROWS)
    (version,) = ages.versions
    assert (ages.measured, version.paired) == (None, None)
    assert version.measured.value == 1.0
    assert json.loads(json.dumps(ages.as_json()))["summary"] == (
        f"version {LATER} (40 days old) has 1.0000"
    )
