"""A portable folder predicts what the pushed model predicts, without TensorFlow."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest

from contracts import fingerprint, verdicts
from contracts.packing import LongTextConfig
from contracts.records.evaluation import Estimate, Evaluation
from contracts.versions import exported_model, served_versions
from modules.encoder.directory import open_encoder
from modules.export.onnx import comparison, portable_folder
from modules.export.pushed_model import read_pushed
from tests import exported, tiny
from tests.modules.export.onnx import served
from tests.nightly import nightly
from tests.refusals import refused

pytestmark = pytest.mark.slow

KINDS = ["pairs", *map(nightly, [kind for kind in exported.TASKS if kind != "pairs"])]
WINDOWS = {"window": 10, "stride": 6}


def export_with(root, kind, threshold=None, length=exported.MAX_SEQ_LENGTH, **packing):
    path = tiny.write_encoder(root / "training" / "encoder")
    return exported.export(
        root, kind, open_encoder(str(path)), length, threshold, **packing
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_task_predicts_what_is_served(export, tmp_path, kind):
    served.check(export(kind), tmp_path / "folder")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        nightly("pairs", {"keep": "tail", "length": 23}),
        nightly("pairs", {"keep": "ends"}),
        nightly("scores", {"keep": "tail"}),
        nightly("sentences", {"keep": "ends", "threshold": 0.9}),
        nightly("labels", {"threshold": [0.3, 0.5, 0.7]}),
        nightly("sentences", {"long_text": {**WINDOWS, "pool": "mean"}}),
        (
            "labels",
            {
                "long_text": {**WINDOWS, "pool": "max"},
                "keep": "tail",
                "length": 40,
                "threshold": [0.0, 1 + 2**-23, 0.2],
            },
        ),
    ],
)
def test_texts_are_packed_and_decided_as_in_the_graph(tmp_path, kind, settings):
    model = export_with(tmp_path, kind, **settings)
    described = served.check(model, tmp_path / "folder").description
    assert described.packing.keep == settings.get("keep", "head")
    long_text = settings.get("long_text")
    assert described.packing.long_text == (long_text and LongTextConfig(**long_text))
    threshold = settings.get("threshold")
    expected = tuple(threshold) if isinstance(threshold, list) else threshold
    assert described.threshold == expected
    tokenizer = json.loads((tmp_path / "folder" / "tokenizer.json").read_text())
    # Hugging Face's tokenizers can keep the first tokens only.
    keeps_head = described.packing.keep == "head" and not long_text
    assert bool(tokenizer["truncation"]) == keeps_head


@pytest.mark.nightly
def test_encoder_of_one_token_type_has_type_0_for_both_texts(tmp_path):
    name = "embeddings.token_type_embeddings.weight"
    path = tiny.write_encoder(tmp_path / "encoder", **{name: np.ones((1, tiny.HIDDEN))})
    (path / "config.json").write_text(json.dumps({**tiny.CONFIG, "type_vocab_size": 1}))
    encoder = open_encoder(str(path))
    model = exported.export(tmp_path, "pairs", encoder, exported.MAX_SEQ_LENGTH)
    described = served.check(model, tmp_path / "folder").description
    assert described.type_vocab_size == 1


def push(model, directory):
    """Pushes a model as version 7 with examples, a card and an evaluation."""
    blessing = directory / "blessing"
    blessing.mkdir(parents=True)
    examples = json.dumps({"instances": ["The cat."]})
    (blessing / verdicts.SERVING_EXAMPLES_FILE).write_text(examples)
    served_versions.push(str(model), str(directory), "7", blessing=str(blessing))
    version = directory / "7"
    (version / "README.md").write_text("# The card\n")
    evaluation = Evaluation(
        split="test",
        rows=4,
        metric="accuracy",
        metrics={
            "accuracy": Estimate(value=0.75, interval=(0.5, 1.0)),
            "auc": Estimate(value=math.nan),
        },
        data="data",
        data_version="1",
    )
    served_versions.write_evaluation(str(version), evaluation.as_json())
    return version


def test_folder_has_what_a_server_shows_of_the_version(export, tmp_path):
    version = push(export("pairs").directory, tmp_path / "served")
    folder = tmp_path / "folder"
    portable = served.check(
        dataclasses.replace(export("pairs"), directory=version), folder
    )
    described = portable.description
    assert (described.version, described.opset) == ("7", 17)
    assert described.digest == exported_model.identity(str(version))
    assert described.metrics["accuracy"] == 0.75
    assert math.isnan(described.metrics["auc"])
    assert described.vocab_size == len(tiny.VOCAB)
    assert (folder / "MODEL_CARD.md").read_text() == "# The card\n"
    assert "The cat." in (folder / "examples.json").read_text()
    names = {entry.name for entry in folder.iterdir()}
    manifest = served_versions.read_manifest(str(folder))
    assert manifest.keys() == names - {"manifest.json", "MODEL_CARD.md"}
    sha256 = fingerprint.of_file(str(folder / "model.onnx"))
    assert manifest["model.onnx"]["sha256"] == sha256
    assert names == {
        *("model.json", "model.onnx", "tokenizer.json", "characters.json"),
        *("manifest.json", "examples.json", "MODEL_CARD.md"),
    }


def test_version_without_card_examples_and_evaluation_is_written(export, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    version = shutil.copytree(export("pairs").directory, tmp_path / "7")
    portable_folder.write(read_pushed(str(version)), folder)
    assert not (folder / "MODEL_CARD.md").exists()
    assert not (folder / "examples.json").exists()
    path = version / served_versions.EVALUATION_FILE
    path.write_text('{"format": 1, "metrics": {}}')
    with refused("E-record-damaged", setting=str(path)):
        portable_folder.write(read_pushed(str(version)), folder)


SCORES = {"score": np.array([1.0, -200.0], np.float32)}
CLASSES = {
    "probabilities": np.array([[0.5, 0.5], [0.1, 0.9]], np.float32),
    "class_id": np.array([0, 1]),
}


@pytest.mark.parametrize(
    ("served", "changes", "is_rounding"),
    [
        (CLASSES, {}, True),
        (CLASSES, {"probabilities": CLASSES["probabilities"] + 2e-4}, False),
        (CLASSES, {"probabilities": CLASSES["probabilities"] * math.nan}, False),
        (CLASSES, {"class_id": np.array([1, 1])}, False),
        (SCORES, {"score": SCORES["score"] + 0.01}, True),
        (SCORES, {"score": SCORES["score"] + 0.03}, False),
    ],
)
def test_difference_is_rounding_or_another_prediction(served, changes, is_rounding):
    difference = comparison.compare(served, served | changes)
    assert difference.is_rounding == is_rounding


def test_labels_of_a_row_change_together():
    probabilities = np.full([2, 3], 0.5, np.float32)
    labels = np.array([[0, 1, 1], [0, 0, 0]])
    outputs = {"probabilities": probabilities, "labels": labels}
    difference = comparison.compare(outputs, outputs | {"labels": 1 - labels})
    assert difference.changes == 2
