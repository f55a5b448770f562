"""Long texts whose class only their end shows, from text to predictions."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from contracts.versions import exported_model
from modules.training import model_run, run_fn
from tests import exported, long_texts
from tests.modules.training import run_arguments
from tests.nightly import nightly

pytestmark = pytest.mark.slow

KIND = "sentences"
TASK = exported.TASKS[KIND]
SPLITS = ("train", "eval")
ROWS, TOKENS = 48, 400
WINDOWS = {"window": 64, "stride": 62, "pool": "max", "windows_in_memory": 50}


@pytest.mark.parametrize(
    ("packing", "is_right"),
    [
        ({"max_seq_length": TOKENS + 2, "long_text": WINDOWS}, True),
        nightly({"max_seq_length": 64, "keep": "tail"}, True),
        nightly({"max_seq_length": 64}, False),
    ],
)
def test_class_at_the_end_is_learned_unless_it_is_cut(packing, is_right, tmp_path):
    rows = long_texts.rows(ROWS, tokens=TOKENS)
    texts, labels = zip(*rows, strict=True)
    run_arguments.transform(
        tmp_path, KIND, [(text,) for text in texts], labels, SPLITS, **packing
    )
    fn_args = run_arguments.build(
        tmp_path, tmp_path, TASK, SPLITS, epochs=4, dropout=0.0
    )
    encoder = long_texts.write_encoder(tmp_path / "learner")
    fn_args.custom_config |= {"packing": packing, "encoder": str(encoder)}
    run_fn.run_fn(fn_args)
    content = json.loads((tmp_path / "model_run" / model_run.METRICS_FILE).read_text())
    assert (content["splits"]["eval"]["accuracy"] == 1.0) == is_right
    served = tf.saved_model.load(str(tmp_path / "serving")).signatures
    outputs = served["serving_default"](sentence=tf.constant(texts))
    with open(tmp_path / "model_run" / "predictions" / "eval.tsv") as file:
        recorded = {
            int(row["idx"]): row for row in csv.DictReader(file, delimiter="\t")
        }
    probabilities = [
        [float(recorded[index][f"probability_{name}"]) for name in TASK.classes]
        for index in range(ROWS)
    ]
    np.testing.assert_allclose(outputs["probabilities"], probabilities, atol=1e-5)
    tokens = served["tokenize"](sentence=tf.constant(texts[:1]))
    count = packing["max_seq_length"] - 2
    assert tokens[exported_model.CUT].numpy().tolist() == [[TOKENS - count]]
    # Each token is there once, whatever windows have it.
    assert tokens[exported_model.TOKEN].shape == (1, count + 2)
