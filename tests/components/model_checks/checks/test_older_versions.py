"""Older versions on the rows of a run."""

import dataclasses
import time

import numpy as np
import pytest

from components.model_checks.check import NotApplicable, OlderVersion
from components.model_checks.checks.older_versions import OlderVersionsCheck
from contracts.records.evaluation import Evaluation
from contracts.task.definition import TaskConfig
from tests.components.model_checks import toys

TASK = TaskConfig(text_columns=["text"], classes=["short", "long"])
COUNT = 60
NEW_SLANG = range(20)  # rows with a word that the old model does not know
DAY = 86_400
LATER, EARLIER = "200", "100"  # pushed 40 and 92 days ago
AGES = {LATER: 40, EARLIER: 92}
TEXTS = [
    ("a" if index in NEW_SLANG else "aa") if index % 2 else "o"
    for index in range(COUNT)
]
ROWS = [(text, index % 2) for index, text in enumerate(TEXTS)]


def by_first(texts):
    """Predicts `long` for a text with an "a", which is right in all rows."""
    return np.eye(2)[[int("a" in text) for (text,) in texts]]


def without_slang(texts):
    """Knows only the older word for it."""
    return np.eye(2)[[int("aa" in text) for (text,) in texts]]


def failing(texts):
    raise RuntimeError(f"output 'probabilities' is not finite in {len(texts)} rows")


def wrong_in(rows):
    """Returns a model that is right in all but the first rows."""

    def predict(texts):
        return np.abs(by_first(texts) - (np.arange(len(texts)) < rows)[:, None])

    return predict


def version(name, problem="", **evaluation):
    facts = None
    if evaluation:
        facts = Evaluation(
            split="eval", rows=60, metric="accuracy", metrics={}, **evaluation
        )
    pushed = time.time() - AGES[name] * DAY
    return OlderVersion(name, pushed, facts, problem, None)


def make_run(models, new=by_first, versions=None, kind=toys.Toy, **facts):
    """Returns a run with older versions, the newest first."""
    return kind(
        task=TASK,
        rows={"eval": ROWS},
        models={"candidate": new, **models},
        versions=[(found, None) for found in versions or map(version, models)],
        facts=facts,
    )


def measure(*args, rows=1000, **options):
    """Returns the result, and its row of each version."""
    result = make_run(*args, **options).run(OlderVersionsCheck(), rows=rows)
    columns = result.table.columns
    return result, [dict(zip(columns, r, strict=True)) for r in result.table.rows]


def test_older_version_that_is_worse_on_new_rows_shows_how_the_model_ages():
    result, table = measure({LATER: by_first, EARLIER: without_slang})
    new, same, old = table
    assert [row["version"] for row in table] == ["new", LATER, EARLIER]
    assert new["accuracy"].value == same["accuracy"].value == 1.0
    assert old["accuracy"].value == pytest.approx(1 - 10 / COUNT)
    low, high = old["accuracy"].interval
    assert low < 1 - 10 / COUNT < high
    assert old["difference"].value == pytest.approx(10 / COUNT)
    assert old["difference"].interval[0] > 0
    assert old["pushed"].endswith("+00:00")
    assert result.status == "passed"
    assert result.figures == {"rows": COUNT}
    assert result.sentence == (
        f"version {EARLIER} (92 days old) is worse: accuracy is 0.833 instead of 1.000 "
        "on 60 rows of eval (p = 0.0039); the model ages, if the settings are the same"
    )


def test_older_version_that_is_better_is_a_warning():
    result, _ = measure({LATER: by_first}, new=wrong_in(15))
    assert result.status == "warning"
    assert result.sentence.startswith(
        f"newer data did not help: version {LATER} (40 days old) is better than the "
        "new model: accuracy is 1.000 instead of 0.750 on 60 rows of eval (p = "
    )
    assert "`rollback`" in result.advice


def test_difference_that_may_be_noise_is_no_sign_of_ageing():
    result, _ = measure({LATER: by_first, EARLIER: by_first}, new=wrong_in(1))
    assert result.status == "passed"
    assert result.sentence.startswith(
        f"no sign of ageing: accuracy of version {EARLIER} (92 days old) and of newer "
    )
    assert result.sentence.endswith("retraining may be unnecessary")


def test_p_value_is_multiplied_by_the_number_of_versions():
    """6 of 60 rows have a p-value of 0.03, which is noise in one of two versions."""
    one, _ = measure({LATER: by_first}, new=wrong_in(6))
    two, _ = measure({LATER: by_first, EARLIER: by_first}, new=wrong_in(6))
    assert (one.status, two.status) == ("warning", "passed")


@pytest.mark.parametrize(("models", "count"), [({}, 3), ({LATER: by_first}, 0)])
def test_first_run_predicts_nothing(models, count):
    run = make_run(models)
    with pytest.raises(NotApplicable, match="no older version"):
        run.run(OlderVersionsCheck(), count=count)
    assert run.calls == [("older_versions", (count,))]


def test_versions_that_cannot_be_measured_are_named_and_the_others_are_measured():
    models = {LATER: failing, EARLIER: by_first}
    versions = [version(LATER, "another task"), *map(version, models)]
    result, (_, *rows) = measure(models, versions=versions)
    assert [row["problem"] for row in rows] == [
        "another task",
        "output 'probabilities' is not finite in 60 rows",
        "",
    ]
    assert [row["accuracy"] is None for row in rows] == [True, True, False]
    assert result.sentence.startswith("no sign of ageing")


def test_versions_that_all_have_a_problem_are_not_passed():
    versions = [version(LATER, "saved_model.pb differs from the pushed file")]
    result, (row,) = measure({}, versions=versions)
    assert result.status == "not applicable"
    assert result.sentence == (
        f"not compared with version {LATER} (40 days old): {row['problem']}"
    )


def test_version_says_which_data_it_was_trained_on():
    trained = version(LATER, data="span-7", data_version="0123456789")
    result, (_, row) = measure({LATER: by_first}, versions=[trained])
    assert row["data"] == "span-7 (01234567)"
    assert "(40 days old, trained on span-7 (01234567))" in result.sentence


def test_version_of_unknown_age_is_measured():
    unknown = dataclasses.replace(version(LATER), pushed=None)
    result, (_, row) = measure({LATER: by_first}, versions=[unknown])
    assert row["pushed"] is None
    assert f"version {LATER} (of unknown age)" in result.sentence


def test_version_whose_data_were_split_in_another_way_is_not_compared():
    splitting = {"test_size": 0.2, "eval_size": 0.1}
    data = {"data": "a.csv", "data_version": "old"}
    models = {LATER: by_first, EARLIER: by_first}
    versions = [
        version(LATER, **data, splitting={}),
        version(EARLIER, **data, splitting=splitting),
    ]
    _, (_, other, same) = measure(models, versions=versions, splitting=splitting)
    assert other["problem"].startswith("its data were split by other settings of data")
    assert (same["problem"], other["accuracy"]) == ("", None)
    # Without a splitting, as of spans, all are compared.
    _, (_, *rows) = measure(models, versions=versions)
    assert [row["problem"] for row in rows] == ["", ""]


def test_new_model_that_is_nan_is_compared_with_no_conclusion():
    result, (new, row) = measure(
        {LATER: by_first}, new=lambda texts: np.full((len(texts), 2), np.nan)
    )
    assert result.status == "passed"
    assert np.isnan(row["difference"].value)
    assert row["difference"].interval is None
    assert np.isnan(new["accuracy"].value)


def test_more_rows_than_the_limit_are_a_sample_that_both_models_predict():
    result, (new, old) = measure({LATER: by_first}, new=wrong_in(10), rows=20)
    assert result.figures == {"rows": 20}
    assert (new["accuracy"].value, old["accuracy"].value) == (0.5, 1.0)


def test_version_predicts_by_its_own_threshold():
    run = make_run({LATER: lambda texts: 0.4 * by_first(texts) + 0.3})
    run.versions = [(version(LATER), 0.75)]
    result = run.run(OlderVersionsCheck())
    assert result.table.rows[1][3].value == 0.5  # the first class is always predicted


def test_rows_without_unique_ids_have_metrics_but_no_test():
    class WithoutIds(toys.Toy):
        def _rows(self, split, most):
            rows = super()._rows(split, most)
            return dataclasses.replace(rows, ids=np.zeros(len(rows), int))

    result, (row,) = measure({LATER: by_first}, kind=WithoutIds)
    assert (row["accuracy"].value, row["difference"]) == (1.0, None)
    assert result.status == "passed"
    assert result.sentence == f"version {LATER} (40 days old) has 1.0000"
