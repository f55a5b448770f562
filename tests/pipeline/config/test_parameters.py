"""Parameters of a run, on the command line."""

import pytest

from contracts.errors import UsageError
from pipeline.config import parameters


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
    ("text", "message"),
    [
        ("epochs", "--parameter 'epochs': write NAME=VALUE"),
        ("epochs=", "--parameter 'epochs=': write epochs= and a value"),
        ("data=[1]", r"--parameter 'data=\[1\]': write data= and a directory"),
        ("data=gs://b/[1]", r"--parameter data gs://b/\[1\]: TensorFlow and Beam read"),
        ("thresholds={f1: 0.8", r"--parameter 'thresholds=\{f1: 0.8': the value is"),
        ("batch_size=3", "--parameter batch_size: allowed are data, epochs, "),
    ],
)
def test_wrong_parameter_is_refused_by_its_name(text, message):
    with pytest.raises(UsageError, match=message):
        parameters.parse([text])


def test_parameters_are_validated_as_the_settings_that_they_replace():
    values = {"steps_per_epoch": 0, "thresholds": 0.9, "data": "gs://b/d"}
    assert parameters.as_settings(values) == {
        "trainer.steps_per_epoch": None,
        "evaluator.thresholds": 0.9,
    }
