"""AdamW with a learning rate per layer."""

import pytest
import tensorflow as tf

from contracts.settings.trainer import TrainerConfig
from modules.training import optimization

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("word_embeddings/embeddings:0", 0.125),
        ("position_embedding/embeddings:0", 0.125),
        ("type_embeddings/embeddings:0", 0.125),
        ("embeddings/layer_norm/gamma:0", 0.125),
        ("transformer/layer_0/self_attention/query/kernel:0", 0.25),
        ("transformer/layer_1/output/bias:0", 0.5),
        ("pooler_transform/kernel:0", 1.0),
        ("sentence_prediction/logits/kernel:0", 1.0),
    ],
)
def test_rate_falls_from_each_layer_to_the_one_below(name, factor):
    assert optimization.layer_rate(name, layer_decay=0.5, layers=2) == factor


def test_layers_decayed_rate_scales_the_step_and_the_weight_decay():
    variables = []
    for layer_decay in (1.0, 0.5):
        settings = TrainerConfig(
            learning_rate=1e-3,
            warmup_fraction=0.0,
            layer_decay=layer_decay,
            weight_decay=0.1,
        )
        config = optimization.build_config(settings, train_steps=100, layers=2)
        optimizer = optimization.build_optimizer(config)
        low = tf.Variable([1.0], name="transformer/layer_0/kernel")
        head = tf.Variable([1.0], name="sentence_prediction/kernel")
        gradients = [(tf.constant([0.3]), low), (tf.constant([0.3]), head)]
        optimizer.apply_gradients(gradients)
        variables.append((low.numpy()[0], head.numpy()[0]))
    (low, head), (low_decayed, head_decayed) = variables
    assert 1 - low_decayed == pytest.approx((1 - low) / 4, rel=1e-3)
    assert head_decayed == pytest.approx(head)
