"""The BERT-base recipe at its full size, with random weights."""

import json
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from modules.encoder.directory import open_encoder
from modules.encoder.model import build_encoder
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import load_config
from tests import tiny
from tests.e2e import commands

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

RECIPE = REPOSITORY / "configs" / "mrpc_bert_base.yaml"
# google-research/bert, uncased_L-12_H-768_A-12.
BERT_BASE = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
PARAMETERS = 109_482_240


def write_checkpoint(directory: Path) -> int:
    """Writes a Model Garden checkpoint of random weights; returns their number."""
    directory.mkdir()
    (directory / "bert_config.json").write_text(json.dumps(BERT_BASE))
    filler = [f"##{n}" for n in range(BERT_BASE["vocab_size"] - len(tiny.VOCAB))]
    (directory / "vocab.txt").write_text("\n".join([*tiny.VOCAB, *filler]) + "\n")
    prefix = str(directory / "bert_model.ckpt")
    for suffix in (".index", ".data-00000-of-00001"):
        Path(prefix + suffix).touch()  # `open_encoder` requires them
    encoder = open_encoder(str(directory))
    model = build_encoder(encoder, dropout=0.1)
    tf.train.Checkpoint(encoder=model).write(prefix)
    return model.count_params()


def test_bert_base_recipe_restores_trains_two_steps_and_is_pushed(tmp_path):
    assert write_checkpoint(tmp_path / "encoder") == PARAMETERS
    tiny.write_tables(tmp_path / "data", rows=64, splits=("train", "eval"))
    settings = {
        "encoder.source": tmp_path / "encoder",
        "data.source": tmp_path / "data",
        "output": tmp_path / "output",
        "trainer.epochs": 1,
        "trainer.steps_per_epoch": 2,
        "evaluator.thresholds": "{f1: 0.0}",
        "checks.linear_model.action": "warn",
        "serving.rows": 4,
    }
    options = [f"--set={name}={value}" for name, value in settings.items()]
    # A process of its own: this one would keep its 8 GB until the last test.
    result = commands.run("run", "--config", RECIPE, *options)
    assert result.returncode == 0, result.stderr
    assert "step 2/2" in result.stdout + result.stderr
    paths = OutputPaths.at(tmp_path / "output", load_config(RECIPE).name)
    (version,) = paths.pushed.iterdir()
    signature = tf.saved_model.load(str(version)).signatures["serving_default"]
    prediction = signature(
        sentence1=tf.constant(["The cat."]), sentence2=tf.constant(["A cat!"])
    )
    assert prediction["probabilities"].shape == (1, 2)
