"""Hyperparameters: the run's parameters in the Trainer's settings."""

import json
import math

import pytest
from tfx import v1 as tfx

from components.hyperparameters.component import Hyperparameters_Executor
from contracts.settings.trainer import TrainerConfig


@pytest.fixture
def write(tmp_path):
    """Writes hyperparameters; returns what the Trainer reads."""

    def write(settings, found=None, **parameters):
        artifact = tfx.types.standard_artifacts.HyperParameters()
        artifact.uri = str(tmp_path / "written")
        inputs = {}
        if found is not None:
            best = tfx.types.standard_artifacts.HyperParameters()
            best.uri = str(tmp_path / "found")
            (tmp_path / "found").mkdir()
            content = {"space": [], "values": found, "trials": []}
            path = tmp_path / "found" / "best_hyperparameters.txt"
            path.write_text(json.dumps(content))
            inputs["best_hyperparameters"] = [best]
        Hyperparameters_Executor().Do(
            inputs,
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
        (path,) = (tmp_path / "written").iterdir()
        return TrainerConfig.model_validate(json.loads(path.read_text()))

    return write


def test_parameters_of_the_run_replace_settings(write):
    trainer = write({"epochs": 4, "batch_size": 8}, epochs=2, steps_per_epoch=7)
    assert (trainer.epochs, trainer.steps_per_epoch, trainer.batch_size) == (2, 7, 8)
    assert trainer.learning_rate == 1e-4


def test_found_settings_replace_those_of_the_recipe(write):
    found = {"learning_rate": 3e-4, "batch_size": 16}
    trainer = write({"batch_size": 8, "seed": 5}, found, learning_rate=0.0)
    assert (trainer.learning_rate, trainer.batch_size) == (3e-4, 16)
    assert (trainer.seed, trainer.epochs) == (5, 1)


def test_parameter_of_the_run_wins_over_what_was_found(write):
    found = {"learning_rate": 3e-4, "epochs": 3}
    trainer = write({}, found, learning_rate=1e-5, epochs=0)
    assert (trainer.learning_rate, trainer.epochs) == (1e-5, 3)


def test_found_setting_that_the_trainer_does_not_allow_is_refused(write):
    with pytest.raises(ValueError, match="learning_rate"):
        write({}, {"learning_rate": 3.0}, learning_rate=0.0)


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
