"""The recipes of the tutorials have the pages' hyperparameters, and no others."""

import numpy as np
import pytest
from official.nlp import optimization as nlp_optimization

from contracts.settings.trainer import TrainerConfig
from modules.training import experiment, optimization
from pipeline.config.paths import REPOSITORY
from pipeline.config.recipe import load_config
from pipeline.inputs import encoder_source
from tests import tiny
from tests.modules.training.schedules import learning_rates

pytestmark = pytest.mark.slow


def load(name):
    return load_config(REPOSITORY / "configs" / f"{name}.yaml")


def build(name, tmp_path):
    """Builds a recipe's experiment on the tiny encoder, on two rows of data."""
    settings = load(name).trainer.model_dump()
    _, _, params = tiny.build_experiment(tmp_path, rows=2, **settings)
    return params


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "mrpc_orbit_tutorial",
            {
                "epochs": 3,
                "steps_per_epoch": 114,
                "evaluation_batch_size": 64,
                "learning_rate": 3e-5,
                "decay_start": "first_step",
                "optimization": {"optimizer": "adamw", "warmup": "to_peak"},
                "steps_per_loop": 20,
                "evaluation_interval": 114,
                "checkpoint_interval": 114,
                "max_checkpoints": 5,
                "delete_checkpoints": False,
            },
        ),
        (
            "mrpc_bert_tutorial",
            {
                "epochs": 5,
                "steps_per_epoch": 114,
                "evaluation_batch_size": 32,
                "learning_rate": 2e-5,
                "decay_start": "first_step",
                "optimization": {
                    "optimizer": {"type": "adam", "adam": {"epsilon": 1e-7}}
                },
                "gradient_clip_norm": None,
                "evaluate_first": True,
                "evaluation_interval": 114,
            },
        ),
    ],
)
def test_recipe_sets_what_the_page_sets_and_no_more(name, changes):
    config = load(name)
    assert (config.task.name, config.preprocessing.max_seq_length) == ("mrpc", 128)
    settings = config.trainer.model_dump()
    defaults = TrainerConfig().model_dump()
    assert settings == defaults | changes
    assert all(defaults[key] != value for key, value in changes.items())


def test_orbit_tutorial(tmp_path):
    params = build("mrpc_orbit_tutorial", tmp_path)
    steps = params.trainer.train_steps
    assert (steps, params.task.train_data.global_batch_size) == (342, 32)
    theirs = nlp_optimization.create_optimizer(3e-5, 342, 34)
    rates = [float(theirs.learning_rate(step)) for step in range(343)]
    ours = params.trainer.optimizer_config
    np.testing.assert_allclose(
        learning_rates(ours, steps), rates, rtol=1e-5, atol=1e-11
    )
    expected, actual = (
        optimizer.get_config()
        for optimizer in (theirs, optimization.build_optimizer(ours))
    )
    for key in ("beta_1", "beta_2", "epsilon", "amsgrad", "weight_decay_rate"):
        assert actual[key] == pytest.approx(expected[key])
    names = ["layer_norm/gamma", "output/bias", "query/kernel"]
    decayed = [theirs._do_use_weight_decay(name) for name in names]
    optimizer = optimization.build_optimizer(ours)
    assert [optimizer._do_use_weight_decay(name) for name in names] == decayed
    # Theirs clips within the optimizer, ours within the task.
    assert theirs.gradient_clip_norm == params.task.gradient_clip_norm == 1.0


@pytest.mark.parametrize("name", ["mrpc_orbit_tutorial", "mrpc_bert_tutorial"])
def test_encoder_is_available_and_has_the_dropout_rates_of_the_page(name):
    text = (REPOSITORY / "configs" / f"{name}.yaml").read_text()
    assert (
        "# source: gs://cloud-tpu-checkpoints/bert/v3/uncased_L-12_H-768_A-12" in text
    )
    config = load(name)
    directory = encoder_source.locate(config.encoder.source, "encoder.source")
    rates = experiment.dropout_rates(config.trainer, directory)
    # Before the head and in it, as in the Model Garden.
    assert rates == pytest.approx((0.1, 0.1, 1 - 0.9**2))
