"""Hyperparameters: the run's parameters in the Trainer's settings."""

import json
import math

import pytest
from tfx import v1 as tfx

from components.hyperparameters.component import Hyperparameters_Executor
from modules.config.trainer import TrainerConfig


@pytest.fixture
def write(tmp_path):
    """Writes hyperparameters; returns what the Trainer reads."""

    def write(settings, **parameters):
        artifact = tfx.types.standard_artifacts.HyperParameters()
        artifact.uri = str(tmp_path)
        Hyperparameters_Executor().Do(
            {},
            {"hyperparameters": [artifact]},
            {
                "settings": json.dumps(settings),
                "epochs": 1,
                "steps_per_epoch": 0,
                "learning_rate": 1e-4,
                "fingerprint": "",
                **parameters,
            },
        )
        (path,) = tmp_path.iterdir()
        return TrainerConfig.model_validate(json.loads(path.read_text()))

    return write


def test_parameters_of_the_run_replace_settings(write):
    trainer = write({"epochs": 4, "batch_size": 8}, epochs=2, steps_per_epoch=7)
    assert (trainer.epochs, trainer.steps_per_epoch, trainer.batch_size) == (2, 7, 8)
    assert trainer.learning_rate == 1e-4


def test_zero_steps_per_epoch_use_every_row_once(write):
    assert write({"steps_per_epoch": 5}).steps_per_epoch is None


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({}, {"learning_rate": 2.0}),
        ({}, {"learning_rate": math.nan}),
        ({}, {"epochs": 0}),
        ({}, {"steps_per_epoch": -1}),
        ({"epoch": 1}, {}),
    ],
)
def test_invalid_setting_or_parameter_is_refused(write, settings, parameters):
    with pytest.raises(ValueError, match=r"learning_rate|epoch"):
        write(settings, **parameters)
