"""The optimizer's configuration, its schedules and its JSON."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from official.modeling import optimization as upstream

from contracts.settings.trainer import TrainerConfig
from contracts.task.definition import TaskConfig
from modules.training import optimization
from modules.training.fine_tuning_task import FineTuningConfig, FineTuningTask
from tests import tiny
from tests.modules.training.schedules import learning_rates
from tests.nightly import nightly

pytestmark = pytest.mark.slow

PEAK = 1e-3


def build(train_steps=100, **settings):
    config = TrainerConfig(**{"learning_rate": PEAK, **settings})
    return optimization.build_config(config, train_steps=train_steps, layers=2)


def rates(**settings):
    return learning_rates(build(**settings), 100)


def warmup_of(steps):
    return {"warmup": {"type": "linear", "linear": {"warmup_steps": steps}}}


TWICE = {"type": "polynomial", "polynomial": {"initial_learning_rate": 2 * PEAK}}
SQUARED = {"type": "polynomial", "polynomial": {"power": 2}}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {0: 0, 5: 0.5, 10: 1, 55: 0.5, 100: 0}),
        ({"warmup_fraction": 0.0}, {0: 1, 50: 0.5, 100: 0}),
        *(
            ({"optimization": {"learning_rate": name}}, {0: 0, 10: 1, 100: 0})
            for name in ("polynomial", "cosine", "power_linear")
        ),
        *(
            (
                {
                    "warmup_fraction": fraction,
                    "optimization": {"learning_rate": name, **warmup_of(20)},
                },
                {0: 0, 10: 0.5, 20: 1, 100: 1 if name == "constant" else 0},
            )
            for fraction in (0.0, 0.5)
            for name in ("polynomial", "cosine", "constant")
        ),
        (
            {"warmup_fraction": 0.5, "optimization": warmup_of(0)},
            {0: 1, 50: 0.5, 100: 0},
        ),
        (
            {"optimization": {"learning_rate": "constant", "warmup": "to_peak"}},
            {0: 0, 5: 0.5, 10: 1, 100: 1},
        ),
        (
            {"optimization": {"learning_rate": TWICE, "warmup": "to_peak"}},
            {5: 1, 10: 2},
        ),
        (
            {"optimization": {"learning_rate": "constant", "warmup": SQUARED}},
            {5: 0.25, 10: 1, 100: 1},
        ),
        (
            {
                "optimization": {
                    "learning_rate": {"type": "cosine", "cosine": {"alpha": 0.1}}
                }
            },
            {10: 1, 100: 0.1},
        ),
    ],
    ids=str,
)
def test_rate_has_its_share_of_the_peak_at_a_step(settings, expected):
    curve = rates(**{"warmup_fraction": 0.1, **settings}) / PEAK
    np.testing.assert_allclose(curve[[*expected]], [*expected.values()], atol=1e-5)
    assert curve.max() == pytest.approx(max(expected.values()))


# The tutorials' 3 epochs of 114 steps, a tenth of them warmup.
TUTORIAL_STEPS, TUTORIAL_WARMUP = 342, 34


def tutorial_rates(**settings):
    settings = {"learning_rate": PEAK, "decay_start": "first_step", **settings}
    config = build(TUTORIAL_STEPS, **settings)
    return learning_rates(config, TUTORIAL_STEPS)


@pytest.mark.parametrize("decay", ["polynomial", "cosine"])
def test_rates_of_an_optimization_config_without_an_offset_step_by_step(decay):
    rate = "initial_learning_rate"
    config = upstream.OptimizationConfig(
        {
            "optimizer": {"type": "adam"},
            "learning_rate": {
                "type": decay,
                decay: {rate: PEAK, "decay_steps": TUTORIAL_STEPS},
            },
            "warmup": {"type": "linear", "linear": {"warmup_steps": TUTORIAL_WARMUP}},
        }
    )
    config.learning_rate.polynomial.end_learning_rate = 0.0
    theirs = upstream.OptimizerFactory(config).build_learning_rate()
    expected = [float(theirs(step)) for step in range(TUTORIAL_STEPS + 1)]
    actual = tutorial_rates(optimization={"learning_rate": decay})
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=PEAK * 1e-6)


def test_after_the_warmup_the_default_rate_is_a_ninth_above_the_tutorials():
    after = slice(TUTORIAL_WARMUP, TUTORIAL_STEPS)
    ratio = tutorial_rates(decay_start="after_warmup")[after] / tutorial_rates()[after]
    np.testing.assert_allclose(ratio, 342 / 308, rtol=1e-4)  # 1.11


def test_configuration_as_the_fine_tuning_tutorial_prints_it_is_accepted():
    printed = {
        "optimizer": {
            "adam": {
                "amsgrad": False,
                "beta_1": 0.9,
                "beta_2": 0.999,
                "clipnorm": None,
                "clipvalue": None,
                "epsilon": 1e-07,
                "global_clipnorm": None,
                "name": "Adam",
            },
            "type": "adam",
        },
        "ema": None,
        "learning_rate": {
            "polynomial": {
                "cycle": False,
                "decay_steps": 570,
                "end_learning_rate": 0.0,
                "initial_learning_rate": 2e-05,
                "name": "PolynomialDecay",
                "offset": 0,
                "power": 1.0,
            },
            "type": "polynomial",
        },
        "warmup": {
            "linear": {
                "name": "linear",
                "warmup_learning_rate": 0,
                "warmup_steps": 57,
            },
            "type": "linear",
        },
    }
    assert upstream.OptimizationConfig(printed).as_dict() == printed
    config = build(570, optimization=printed)
    assert config.as_dict() == printed
    # The recipe has the same values in our own settings.
    settings = {"learning_rate": 2e-5, "decay_start": "first_step"}
    adam = {"optimizer": {"type": "adam", "adam": {"epsilon": 1e-7}}}
    assert build(570, **settings, optimization=adam).as_dict() == printed
    optimizer = optimization.build_optimizer(config)
    assert isinstance(optimizer, tf_keras.optimizers.legacy.Adam)
    assert (optimizer.clipnorm, optimizer.global_clipnorm) == (None, None)


@pytest.mark.parametrize("kind", ["adamw", "lamb", "sgd"])
@pytest.mark.parametrize("has_warmup", [True, False])
def test_any_optimization_config_of_the_model_garden_keeps_its_meaning(
    kind, has_warmup
):
    """Rates and steps that it leaves open follow from our settings."""
    content = {
        "optimizer": {"type": kind},
        "learning_rate": {"type": "cosine", "cosine": {"alpha": 0.1}},
        **({"warmup": {"type": "linear"}} if has_warmup else {}),
        "ema": {"average_decay": 0.9},
    }
    printed = upstream.OptimizationConfig(content).as_dict()
    config = build(optimization=json.loads(json.dumps(printed))).as_dict()
    steps = 10 if has_warmup else 0
    printed["learning_rate"]["cosine"] |= {
        "initial_learning_rate": PEAK,
        "decay_steps": 100 - steps,
        "offset": steps,
    }
    if has_warmup:
        printed["warmup"]["linear"]["warmup_steps"] = steps
    # The Model Garden prints AdamW's clipping to a norm of 1, which our task does. Its
    # None excludes nothing from weight decay.
    if kind == "adamw":
        assert printed["optimizer"][kind]["exclude_from_weight_decay"] is None
        assert printed["optimizer"][kind].pop("gradient_clip_norm") == 1.0
        assert config["optimizer"][kind].pop("gradient_clip_norm") == 0.0
    assert config["learning_rate"]["cosine"] == printed["learning_rate"]["cosine"] | {
        "offset": config["learning_rate"]["cosine"]["offset"]
    }
    del config["learning_rate"], printed["learning_rate"]
    assert config == printed


@pytest.mark.parametrize("name", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_limit_of_0_does_not_clip(task, name):
    settings = {"optimizer": {"type": "adam", "adam": {name: 0}}}
    config = build(optimization=settings)
    optimizer = optimization.build_optimizer(
        config, transform_gradients=task.transform_gradients
    )
    assert getattr(optimizer, name) is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"layer_decay": 0.8},
        {"warmup_fraction": 0.0},
        {"decay_start": "first_step", "optimization": {"warmup": "to_peak"}},
        {"optimization": {"optimizer": "lamb", "ema": {"average_decay": 0.99}}},
    ],
)
def test_optimizer_json_of_a_training_is_accepted(settings):
    config = build(**settings)
    content = json.loads(json.dumps(config.as_dict()))
    assert build(optimization=content) == config


def test_layers_of_another_encoder_are_refused():
    content = build(layer_decay=0.8).as_dict()
    content["optimizer"]["layerwise_adamw"]["layers"] = 12
    with pytest.raises(ValueError, match=r"layers: 12, but the encoder has 2"):
        build(optimization=content)


@pytest.mark.parametrize("schedule", ["polynomial", "cosine", "power_linear"])
def test_warmup_over_the_whole_training_ends_at_the_peak(schedule):
    config = build(10, warmup_fraction=0.95, optimization={"learning_rate": schedule})
    curve = learning_rates(config, 10)
    np.testing.assert_allclose(curve, np.linspace(0, PEAK, 11), rtol=1e-5)


@pytest.mark.parametrize("steps", [-1, 2.5])
def test_invalid_warmup_steps_are_refused(steps):
    with pytest.raises(ValueError, match=rf"linear\.warmup_steps: {steps}; allowed"):
        build(optimization={"warmup": {"linear": {"warmup_steps": steps}}})


EMA = {"average_decay": 0.9}


def weights_after(name, ema, gradients, transform=None):
    """Returns the weights after a step with each gradient."""
    config = build(warmup_fraction=0.0, optimization={"optimizer": name, "ema": ema})
    optimizer = optimization.build_optimizer(config, transform_gradients=transform)
    weights = tf.Variable([1.0, -2.0])
    if ema:
        optimizer.shadow_copy(_Model([weights]))
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient), weights)])
    return weights.numpy()


@pytest.mark.parametrize(
    ("name", "ema"),
    [
        *((name, None) for name in optimization.OPTIMIZERS),
        ("adamw", EMA),
        *(nightly(name, EMA) for name in optimization.OPTIMIZERS if name != "adamw"),
    ],
)
def test_every_optimizer_applies_gradients_that_are_clipped(task, name, ema):
    # Adam hides the scale of a first gradient, but not of one that follows another.
    huge, clipped = [[0.3, 0.4], [4e4, 3e4]], [[0.3, 0.4], [0.8, 0.6]]
    updated = weights_after(name, ema, huge, task.transform_gradients)
    np.testing.assert_allclose(updated, weights_after(name, ema, clipped), rtol=1e-5)
    if name != "lars":  # which normalizes each gradient
        unclipped = weights_after(name, ema, huge)
        assert not np.allclose(updated, unclipped, rtol=1e-5)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """The fine-tuning task of the tiny encoder, which clips to a norm of 1."""
    directory = tiny.write_encoder(tmp_path_factory.mktemp("task") / "encoder")
    params = FineTuningConfig(init_checkpoint=str(directory), gradient_clip_norm=1.0)
    return FineTuningTask(params, TaskConfig())


class _Model:
    def __init__(self, variables):
        self.trainable_variables = variables


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"layer_decay": 0.8},
        {"optimization": {"optimizer": "lamb", "learning_rate": "cosine"}},
        {"optimization": {"ema": {"average_decay": 0.99}}},
    ],
)
def test_optimizer_is_rebuilt_equal_from_its_json(settings):
    config = build(**settings)
    read = optimization.OptimizationConfig(json.loads(json.dumps(config.as_dict())))
    assert read == config
    assert _settings(optimization.build_optimizer(config)) == _settings(
        optimization.build_optimizer(read)
    )
    np.testing.assert_array_equal(
        learning_rates(config, 100), learning_rates(read, 100)
    )


def _settings(optimizer):
    optimizer = getattr(optimizer, "_optimizer", optimizer)  # of an average
    settings = optimizer.get_config()
    del settings["learning_rate"]  # an object; its values are compared by themselves
    return type(optimizer), settings


def test_weight_decay_exempts_only_layer_norm_and_biases(task):
    model = task.build_model()
    optimizer = optimization.build_optimizer(build())
    names = [variable.name for variable in model.trainable_variables]
    decayed = {name for name in names if optimizer._do_use_weight_decay(name)}
    spared = set(names) - decayed
    assert all("layer_norm" in name or "bias" in name for name in spared)
    assert len(spared) == 2 + tiny.LAYERS * 10 + 2  # embeddings, layers, pooler, head
    assert any("word_embeddings" in name for name in decayed)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adamx"}, r"optimizer\.type: 'adamx'; allowed: adagrad"),
        ({"schedule": "cosine"}, "unknown schedule; allowed: ema, learning_rate"),
        ({"optimizer": {"type": "adam", "adam": {"beta": 1}}}, "unknown beta; allowed"),
        ({"optimizer": {"type": "adam", "sgd": {}}}, "unknown sgd; allowed: adam"),
        ({"learning_rate": {"type": "cosine", "cosine": {"a": 1}}}, "unknown a;"),
        ({"ema": {"decay": 0.9}}, "ema: unknown decay; allowed: average_decay"),
        (
            {"optimizer": {"type": "adamw", "adamw": {"gradient_clip_norm": 2.0}}},
            r"gradient_clip_norm of adamw is 2\.0; allowed: null and 0",
        ),
        (
            {"optimizer": {"type": "adam", "adam": {"clipnorm": 1.0}}},
            r"clipnorm of adam is 1\.0; allowed: null and 0",
        ),
        (
            {"optimizer": {"type": "adam", "adam": {"global_clipnorm": 0.5}}},
            r"trainer\.gradient_clip_norm, which is 1\.0, clips",
        ),
    ],
)
def test_setting_that_the_model_garden_does_not_have_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        build(optimization=settings)


def test_layer_decay_works_only_with_adamw():
    with pytest.raises(ValueError, match=r"layer_decay: 0\.9.*only with .*adamw"):
        build(layer_decay=0.9, optimization={"optimizer": "sgd"})


def test_moving_average_is_refused_with_loss_scaling():
    config = build(optimization={"ema": {"average_decay": 0.9}})
    with pytest.raises(ValueError, match=r"ema: does not work with .*float16"):
        optimization.build_optimizer(config, mixed_precision="float16")
