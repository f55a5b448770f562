"""What swapped words change in the predictions of a model, from draw to verdict."""

import re

import numpy as np
import pytest
import tensorflow as tf

from components.serving_check import ServingCheck, rows
from contracts.records.serving import ServingReport
from contracts.settings.sections import Sections
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from tests import records, served, warm_probe

pytestmark = pytest.mark.slow

CLASSES = TaskConfig(classes=["a", "b"])
LABELS = TaskConfig(kind="multilabel", classes=["a", "b"])
SCORES = TaskConfig(label_range=[0.0, 5.0])
PEOPLE = ["he", "She", "the Woman", "my father", "a Muslim", "HIS dog", "an Indian man"]


def by_words(words):
    """Returns a model whose prediction depends on whether a word is in the texts."""

    def predict(left, right):
        text = tf.strings.join([left, right], separator=" ")
        has_word = tf.strings.regex_full_match(text, rf"(?is).*\b(?:{words})\b.*")
        share = tf.where(has_word, 0.9, 0.2)
        return tf.stack([1 - share, share], axis=1)

    return predict


def scores_by_words(change):
    def predict(left, right):
        probability = by_words("he|his|man|father")(left, right)[:, 1]
        return change * (probability - 0.2) / 0.7

    return predict


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Runs the component on a model; returns its report."""
    warm_probe.install(monkeypatch)

    def check(predict, task=CLASSES, count=60, texts=PEOPLE, **settings):
        examples = [
            records.example(
                sentence1=[f"{number}: {texts[number % len(texts)]} went".encode()],
                sentence2=[f"{texts[number % len(texts)]} left".encode()],
                idx=[number],
            )
            for number in range(count)
        ]
        predictions = tmp_path / "run" / "predictions" / "eval.tsv"
        predictions.parent.mkdir(parents=True)
        columns = (
            "prediction" if task.classes is None else "probability_a\tprobability_b"
        )
        predictions.write_text(f"idx\t{columns}\n")
        output = "score" if task.classes is None else "probabilities"
        model = served.save_toy(tmp_path / "trained", predict, output=output)
        described = exported_model.describe_task(task)
        trained = str(tmp_path / "trained" / "Format-Serving")
        exported_model.write_description(trained, described)
        inputs = served.artifacts(tmp_path, model, examples, predictions)
        ServingCheck.EXECUTOR_SPEC.executor_class._FUNCTION(
            **inputs,
            settings=served.settings_of(task, settings, rows=15),
            fingerprint="",
        )
        return ServingReport.read(inputs["blessing"].uri)

    return check


def test_model_that_predicts_by_a_word_for_a_group_is_found(check, caplog):
    report = check(by_words("he|his|man|father"))
    assert report.blessed
    by_name = {part.name: part for part in report.group_words}
    assert [*by_name] == ["gender", "religion", "nationality"]
    gender = by_name["gender"]
    # All but the Muslims have a word for a man or a woman.
    assert gender.rows == gender.versions == gender.changed == 52
    assert gender.mean_change == pytest.approx(0.7)
    religion = by_name["religion"]
    assert (religion.rows, religion.versions, religion.changed) == (8, 32, 0)
    (warning,) = report.warnings
    assert re.fullmatch(
        r"the prediction changes in 52 of 52 rows \(100\.0 %, 95 % interval 93\.2 % to "
        r"100\.0 %\) if words of evaluator\.group_words\.gender are swapped, but "
        r"evaluator\.max_changed_by_words allows 5 %; the report has the rows that "
        r"change most: add rows to train .*",
        warning,
    )
    assert warning in caplog.text
    assert len({row.id for row in gender.largest}) == len(gender.largest) == 5
    for row in gender.largest:
        assert {row.prediction, row.swapped_prediction} == {"a", "b"}
        change = abs(row.probability - row.swapped_probability)
        assert change == pytest.approx(0.7)
        # Both texts are swapped at once.
        for before, after in zip(row.texts, row.swapped, strict=True):
            assert before != after


def test_model_that_uses_no_word_for_a_group_is_not(check, caplog):
    report = check(by_words("went"))
    assert report.blessed
    assert report.warnings == []
    assert {part.changed for part in report.group_words} == {0}
    assert {part.mean_change for part in report.group_words} == {0}
    assert "swapped" not in caplog.text


def test_few_rows_that_change_may_be_noise(check):
    """The words of two of 12 rows decide; the interval of the share includes 5 %."""
    report = check(by_words("father"), count=14)
    (gender, *_) = report.group_words
    assert (gender.changed, gender.rows) == (2, 12)
    assert gender.interval[0] < 0.05
    assert report.warnings == []


def test_model_is_refused_if_the_user_asks_for_it(check):
    report = check(by_words("he|his|man|father"), changed_by_words="refuse")
    (reason,) = report.reasons
    assert "words of evaluator.group_words.gender are swapped" in reason
    assert report.warnings == []
    assert not report.blessed
    assert len(report.group_words[0].largest) == 5


def test_limit_of_the_recipe_decides(check):
    report = check(by_words("he|his|man|father"), max_changed_by_words=0.95)
    assert report.warnings == []


def test_any_label_that_changes_counts(check):
    def predict(left, right):
        share = by_words("he|his|man|father")(left, right)[:, 1]
        # The label `a`, whose probability is always higher, never changes.
        return tf.stack([0.9 + 0.1 * share, share], axis=1)

    report = check(predict, LABELS)
    gender = report.group_words[0]
    assert gender.changed == 52
    assert gender.mean_change == pytest.approx(0.7)


@pytest.mark.parametrize(("change", "changed"), [(1.0, 52), (0.4, 0)])
def test_score_changes_by_a_tenth_of_its_range(check, change, changed):
    report = check(scores_by_words(change), SCORES)
    gender = report.group_words[0]
    assert gender.changed == changed
    assert gender.mean_change == pytest.approx(change)


def test_nan_for_a_swapped_text_is_refused(check):
    def predict(left, right):
        del right
        is_father = tf.strings.regex_full_match(left, ".*mother.*")
        share = tf.where(is_father, np.nan, 0.5)
        return tf.stack([1 - share, share], axis=1)

    report = check(predict)
    assert (
        "group_words.gender: output 'probabilities' is not finite" in report.reasons[0]
    )
    assert report.group_words == []


@pytest.mark.parametrize(
    ("texts", "settings", "reason"),
    [
        (["a dog"], {}, r"no row has one of evaluator\.group_words \(gender, religion"),
        (PEOPLE, {"group_words": {}}, r"evaluator\.group_words has no list"),
    ],
)
def test_rows_without_words_are_reported(check, texts, settings, reason):
    report = check(by_words("he"), texts=texts, **settings)
    assert report.blessed
    assert report.group_words == []
    assert re.search(rf"^words are not swapped: {reason}", report.not_swapped)


def test_rows_are_a_sample_of_the_split_and_always_the_same(tmp_path):
    examples = [
        records.example(sentence1=[f"{n} he".encode()], sentence2=[b"a Jew"], idx=[n])
        for n in range(400)
    ]
    pattern = records.write(tmp_path / "data.gz", examples)
    (tmp_path / "predictions").mkdir()
    predictions = tmp_path / "predictions" / "eval.tsv"
    predictions.write_text("idx\tlabel\tprediction\tprobability_a\tprobability_b\n")
    settings = Sections.parse(served.settings_of(rows=10))
    request = rows.build_request(pattern, str(tmp_path), settings)
    assert rows.build_request(pattern, str(tmp_path), settings) == request
    text, sent = request.signatures
    assert text.swapped == {}
    gender, religion = sent.swapped["gender"], sent.swapped["religion"]
    # At most four versions for each row that is sent as text.
    assert (len(gender.ids), len(gender.rows)) == (40, 40)
    assert (len(religion.ids), len(religion.rows)) == (10, 40)
    assert sum(number >= 200 for number in gender.ids) in range(10, 31)
    assert len(gender.inputs["examples"]) == len(gender.texts) == 80
