"""Parameters of a run, on the command line."""

import pytest

from pipeline.config import parameters
from pipeline.config.errors import UsageError


def test_values_keep_their_types_and_bounds_become_json():
    found = parameters.parse(
        ["epochs=2", "learning_rate=3e-5", "thresholds={accuracy: 0.9}"]
    )
    assert found == {
        "epochs": 2,
        "learning_rate": 3e-5,
        "thresholds": '{"accuracy": 0.9}',
    }


def test_values_are_read_as_the_settings_that_they_stand_for():
    assert parameters.parse(["data=010", "epochs=010", "learning_rate=1e-5"]) == {
        "data": "010",
        "epochs": 10,
        "learning_rate": 1e-5,
    }


def test_parameter_without_a_value_is_refused():
    with pytest.raises(UsageError, match="--parameter 'epochs': write NAME=VALUE"):
        parameters.parse(["epochs"])


def test_value_that_is_not_yaml_is_refused_by_the_name_of_the_parameter():
    with pytest.raises(UsageError, match=r"--parameter 'thresholds=\{f1: 0.8': the v"):
        parameters.parse(["thresholds={f1: 0.8"])


def test_bound_that_is_no_mapping_is_refused_as_a_setting():
    values = parameters.parse(["thresholds=0.9", "max_regression={f1: 1e-5}"])
    assert parameters.as_settings(values) == {
        "evaluator.thresholds": 0.9,
        "evaluator.max_regression": {"f1": 1e-5},
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
