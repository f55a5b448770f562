"""Parameters of a run, on the command line."""

import re

import pytest

from pipeline.config import parameters
from tests.refusals import refused


def test_values_are_read_as_the_settings_that_they_replace():
    texts = ["data=010", "epochs=010", "learning_rate=1e-5", "thresholds={f1: 0.9}"]
    assert parameters.parse(texts) == {
        "data": "010",
        "epochs": 10,
        "learning_rate": 1e-5,
        "thresholds": {"f1": 0.9},
    }


def test_mapping_is_sent_as_json():
    assert parameters.encode({"f1": 0.9}) == '{"f1": 0.9}'
    assert parameters.encode(3e-5) == 3e-5


@pytest.mark.parametrize(
    ("text", "got", "allowed"),
    [
        ("epochs", "'epochs'", "NAME=VALUE"),
        ("epochs=", "'epochs='", "epochs=VALUE"),
        ("data=[1]", r"'data=\[1\]'", "data=DIR"),
        ("thresholds={f1: 0.8", "'{f1: 0.8' is not YAML", ""),
        ("batch_size=3", "'batch_size=3'", "data, epochs, "),
    ],
)
def test_wrong_parameter_is_refused_by_its_name(text, got, allowed):
    patterns = {"got": re.compile(got), "allowed": re.compile(allowed)}
    with refused("E-settings-refused", setting="values", **patterns):
        parameters.parse([text])


def test_data_that_are_a_pattern_are_refused():
    with refused("E-path-pattern"):
        parameters.parse(["data=gs://b/[1]"])


def test_parameters_are_validated_as_the_settings_that_they_replace():
    values = {"steps_per_epoch": 0, "thresholds": 0.9, "data": "gs://b/d"}
    assert parameters.as_settings(values) == {
        "trainer.steps_per_epoch": None,
        "evaluator.thresholds": 0.9,
    }
