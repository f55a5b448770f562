"""Texts of 2,000 tokens whose class only their end shows, from text to predictions."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from modules.training import model_run, run_fn
from tests import exported
from tests.modules.training import run_arguments
from tests.nightly import nightly

pytestmark = pytest.mark.slow

KIND = "sentences"
TASK = exported.TASKS[KIND]
SPLITS = ("train", "eval")
ROWS = 48
TOKENS = 2000
FILLERS = ["the", "a", "house", "tree", "river", "road", "big", "small", "red", "blue"]
ENDS = ["dog", "cat"]
WINDOWS = {
    "max_seq_length": 2048,
    "long_text": {"window": 64, "stride": 48, "pool": "mean"},
}


def write_texts():
    """Returns a text for each row, and its label, which its last word shows."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, ROWS).tolist()
    texts = [
        " ".join([*random.choice(FILLERS, TOKENS - 1), ENDS[label]]) for label in labels
    ]
    return texts, labels


@pytest.mark.parametrize(
    ("packing", "is_right"),
    [
        (WINDOWS, True),
        nightly(
            {**WINDOWS, "long_text": {**WINDOWS["long_text"], "pool": "max"}}, True
        ),
        nightly({"max_seq_length": 64, "keep": "tail"}, True),
        nightly({"max_seq_length": 64, "keep": "ends"}, True),
        nightly({"max_seq_length": 64}, False),
    ],
)
def test_class_at_the_end_is_learned_unless_it_is_cut(packing, is_right, tmp_path):
    texts, labels = write_texts()
    run_arguments.transform(
        tmp_path, KIND, [(text,) for text in texts], labels, SPLITS, **packing
    )
    fn_args = run_arguments.build(
        tmp_path, tmp_path, TASK, SPLITS, epochs=8, dropout=0.0, learning_rate=1e-2
    )
    fn_args.custom_config |= packing
    run_fn.run_fn(fn_args)
    content = json.loads((tmp_path / "model_run" / model_run.METRICS_FILE).read_text())
    print(json.loads((tmp_path / "model_run" / "seed-0" / "record.json").read_text()))
    assert (content["splits"]["eval"]["accuracy"] == 1.0) == is_right
    served = tf.saved_model.load(str(tmp_path / "serving")).signatures
    outputs = served["serving_default"](sentence=tf.constant(texts))
    with open(tmp_path / "model_run" / "predictions" / "eval.tsv") as file:
        rows = {int(row["idx"]): row for row in csv.DictReader(file, delimiter="\t")}
    recorded = [
        [float(rows[index][f"probability_{name}"]) for name in TASK.classes]
        for index in range(ROWS)
    ]
    np.testing.assert_allclose(outputs["probabilities"], recorded, atol=1e-5)
    examples = tf.constant(
        [exported.serialize(row) for row in exported.rows_of(TASK, zip(texts))]
    )
    of_examples = served["serve_examples"](examples=examples)
    np.testing.assert_allclose(of_examples["logits"], outputs["logits"], atol=1e-5)
