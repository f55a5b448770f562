"""Parameters of a run, on the command line."""

import pytest

from pipeline import parameters
from pipeline.errors import UsageError


def test_values_keep_their_types_and_bounds_become_json():
    found = parameters.parse(
        ["epochs=2", "learning_rate=3e-5", "thresholds={accuracy: 0.9}"]
    )
    assert found == {
        "epochs": 2,
        "learning_rate": 3e-5,
        "thresholds": '{"accuracy": 0.9}',
    }


def test_unknown_parameter_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match=r"--parameter batch_size: allowed are data, "):
        parameters.parse(["batch_size=3"])


def test_parameters_are_the_settings_that_they_stand_for():
    values = {"steps_per_epoch": 0, "thresholds": '{"f1": 0.9}', "data": "gs://b/d"}
    assert parameters.as_settings(values) == {
        "trainer.steps_per_epoch": None,
        "evaluator.thresholds": {"f1": 0.9},
    }
