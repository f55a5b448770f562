"""The pushed version of a run for other runtimes, after its training is gone."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from click.testing import CliRunner
from safetensors.numpy import load_file

from pipeline.cli.main import main
from tests import tiny
from tests.prediction.export import bert

pytestmark = pytest.mark.e2e


def test_exported_weights_and_tokenizer_predict_what_is_served(finished, tmp_path):
    model = next(finished.paths.pushed.glob("[0-9]*"))
    pairs = [texts for _, *texts in tiny.pairs(16, seed=2)]
    first, second = map(tf.constant, zip(*pairs, strict=True))
    served = tf.saved_model.load(str(model))
    outputs = served.signatures["serving_default"](sentence1=first, sentence2=second)
    shutil.rmtree(finished.paths.root / "training")
    shutil.rmtree(finished.recipe.parent / "encoder")
    target = tmp_path / "folder"
    arguments = ["--model", str(finished.paths.pushed), "--output", str(target)]
    result = CliRunner().invoke(main, ["export", "--format", "huggingface", *arguments])
    assert result.exit_code == 0, result.output
    logits = bert.classify(
        load_file(target / "model.safetensors"),
        json.loads((target / "config.json").read_text()),
        *bert.encode(target, pairs),
    )
    np.testing.assert_allclose(logits, outputs["logits"], rtol=0, atol=1e-6)
    assert np.ptp(logits, axis=0).max() > 1e-4  # rows have different logits
