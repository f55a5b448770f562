"""A pushed model as an ONNX file, run in NumPy, without ONNX Runtime."""

import itertools
import json
import re
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from click.testing import CliRunner

from modules.encoder.directory import open_encoder
from pipeline.cli.main import main
from pipeline.config.paths import REPOSITORY
from prediction.portable import export, onnx_environment
from tests import exported, records, tiny
from tests.nightly import nightly
from tests.prediction.portable import bert, onnx_reader
from tests.refusals import check_command, refused

pytestmark = pytest.mark.slow

TEXTS = [*exported.PAIRS[:2], ("the cat " * 40, "a dog " * 8), ("a", "")]
KINDS = ["pairs", *map(nightly, ("sentences", "scores", "labels"))]


def write(model, target, **options):
    export.export(str(model), str(target), lambda line: None, **options)
    return target


def feeds_of(folder, texts):
    names = ("input_ids", "attention_mask", "token_type_ids")
    return dict(zip(names, bert.encode(folder, texts), strict=True))


def served_outputs(model, texts):
    """Returns logits, or scores in one column."""
    columns = map(tf.constant, zip(*texts, strict=True))
    feeds = dict(zip(model.task.text_columns, columns, strict=True))
    loaded = tf.saved_model.load(str(model.directory))
    outputs = loaded.signatures["serving_default"](**feeds)
    if model.task.classes is None:
        return outputs["score"].numpy()[:, None]
    return outputs["logits"].numpy()


def assert_equals_served(model, target):
    folder = write(model.directory, target, target_format="onnx")
    texts = [row[: len(model.task.text_columns)] for row in TEXTS]
    file = onnx_reader.read(folder / "model.onnx")
    expected = served_outputs(model, texts)
    logits = onnx_reader.run(file, feeds_of(folder, texts))["logits"]
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    # Another batch and length.
    logits = onnx_reader.run(file, feeds_of(folder, texts[:1]))["logits"]
    np.testing.assert_allclose(logits, expected[:1], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_equal_those_of_the_pushed_model(export, tmp_path, kind):
    assert_equals_served(export(kind), tmp_path / "folder")


@pytest.mark.nightly
@pytest.mark.parametrize("activation", ["gelu_new", "relu"])
def test_other_activations_are_those_of_the_encoder(tmp_path, activation):
    path = tiny.write_encoder(tmp_path / "encoder")
    (path / "config.json").write_text(
        json.dumps({**tiny.CONFIG, "hidden_act": activation, "layer_norm_eps": 1e-3})
    )
    encoder = open_encoder(str(path))
    model = exported.export(tmp_path, "pairs", encoder, exported.MAX_SEQ_LENGTH)
    assert_equals_served(model, tmp_path / "folder")
    folder = write(model.directory, tmp_path / "transformers")
    config = json.loads((folder / "config.json").read_text())
    assert (config["hidden_act"], config["layer_norm_eps"]) == (activation, 1e-3)


@pytest.mark.nightly
def test_encoder_of_one_token_type_has_type_0_for_both_texts(tmp_path):
    name = "embeddings.token_type_embeddings.weight"
    path = tiny.write_encoder(tmp_path / "encoder", **{name: np.ones((1, tiny.HIDDEN))})
    (path / "config.json").write_text(json.dumps({**tiny.CONFIG, "type_vocab_size": 1}))
    encoder = open_encoder(str(path))
    model = exported.export(tmp_path, "pairs", encoder, exported.MAX_SEQ_LENGTH)
    assert_equals_served(model, tmp_path / "folder")
    assert not bert.encode(tmp_path / "folder", TEXTS)[2].any()
    readme = (tmp_path / "folder" / "README.md").read_text()
    assert "[0] * (len(a) + 2) + [0] * (len(b) + 1)" in readme


def test_file_names_its_inputs_and_dynamic_dimensions(export, tmp_path):
    folder = write(export("pairs").directory, tmp_path / "f", target_format="onnx")
    model = onnx_reader.read(folder / "model.onnx")
    (opset,) = model.opset_import
    assert (model.ir_version, opset.domain, opset.version) == (8, "", 17)

    def describe(value):
        tensor = value.type.tensor_type
        dimensions = [d.dim_param or d.dim_value for d in tensor.shape.dim]
        return value.name, tensor.elem_type, dimensions

    int64, float32 = 7, 1
    assert [describe(value) for value in model.graph.input] == [
        (name, int64, ["batch", "seq_len"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    assert list(map(describe, model.graph.output)) == [
        ("logits", float32, ["batch", 3])
    ]
    names = [name for node in model.graph.node for name in node.output]
    assert len(set(names)) == len(names)
    assert sorted(entry.name for entry in folder.iterdir()) == [
        *("README.md", "config.json", "model.onnx", "tokenizer.json"),
        *("tokenizer_config.json", "vocab.txt"),
    ]


def test_int8_has_the_weights_in_a_byte_and_similar_outputs(export, tmp_path):
    from prediction.portable import bert_graph
    from prediction.portable.pushed_model import read_pushed

    model = export("pairs")
    folder = write(model.directory, tmp_path / "folder")
    bert_graph.write(
        read_pushed(str(model.directory)), tmp_path / "int8.onnx", is_int8=True
    )
    file = onnx_reader.read(tmp_path / "int8.onnx")
    matrices = {
        tensor.name: tensor.data_type
        for tensor in file.graph.initializer
        if len(tensor.dims) == 2
        and min(tensor.dims) > 2
        and "position" not in tensor.name
    }
    int8 = 3
    assert len(matrices) == 1 + 6 * tiny.LAYERS + 2
    assert set(matrices.values()) == {int8}
    logits = onnx_reader.run(file, feeds_of(folder, TEXTS))["logits"]
    expected = served_outputs(model, TEXTS)
    assert 0 < abs(logits - expected).max() < 0.1 * np.ptp(expected)


RUNTIME = """
from pathlib import Path

from tests.prediction.portable import onnx_reader

class InferenceSession:
    def __init__(self, path, providers=None):
        self._model = onnx_reader.read(Path(path))

    def run(self, names, feeds):
        return [onnx_reader.run(self._model, feeds)["logits"]]
"""


@pytest.mark.nightly
@pytest.mark.parametrize("threshold", [None, [0.3, 0.5, 0.7], [0.0, 1 + 2**-23, 0.0]])
def test_file_of_several_labels_is_compared_and_its_readme_predicts_them(
    tmp_path, monkeypatch, capsys, threshold
):
    """With a module in NumPy instead of ONNX Runtime, and texts that are not UTF-8."""
    model = exported.export_tiny(tmp_path / "model", "labels", threshold=threshold)
    monkeypatch.syspath_prepend(tmp_path / "runtime")
    paths = f"{tmp_path / 'runtime'}:{REPOSITORY}"
    monkeypatch.setenv("PYTHONPATH", paths)
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "onnxruntime.py").write_text(RUNTIME)
    texts = [b"the cat", b"a dog \xff", b"Text 1."]
    rows = [records.example(sentence=[text], label=[1, 0, 1]) for text in texts]
    path = records.write(tmp_path / "rows.gz", rows)
    folder = tmp_path / "folder"
    evaluation = export.export(
        *(str(model.directory), str(folder), print),
        target_format="onnx",
        examples=str(path),
    )
    served, file = evaluation.values["served"], evaluation.values["model.onnx"]
    assert evaluation.changes == {"model.onnx": 0}
    assert file == pytest.approx(served, abs=1e-5, nan_ok=True)
    assert {"micro_f1", "hamming_loss", "f1/maybe"} <= served.keys()
    readme = (folder / "README.md").read_text()
    assert "| rows with other labels | | 0 |" in readme
    # The code predicts "Text 1.".
    monkeypatch.chdir(folder)
    capsys.readouterr()
    exec(readme.split("```python")[1].split("```")[0], {})
    loaded = tf.saved_model.load(str(model.directory))
    outputs = loaded.signatures["serving_default"](sentence=tf.constant(["Text 1."]))
    is_set = outputs["labels"].numpy()[0].tolist()
    names = list(itertools.compress(model.task.classes, is_set))
    assert capsys.readouterr().out.strip() == str(names)


@pytest.mark.parametrize(
    ("options", "message", "name"),
    [
        (["onnx", "--int8"], "--int8: it ch", "E-option-missing"),
        (["huggingface", "--int8"], "leave --int8 and --exam", "E-options-conflict"),
        (["onnx", "--examples", "none/*"], "--examples: none/* m", "E-data-not-found"),
    ],
)
def test_options_that_contradict_are_refused(tmp_path, options, message, name):
    arguments = ["--model", str(tmp_path), "--output", str(tmp_path / "folder")]
    result = CliRunner().invoke(main, ["export", *arguments, "--format", *options])
    check_command(result, name, message)


@pytest.mark.parametrize(
    ("kind", "features", "value"),
    [
        ("pairs", {"label": [3]}, "3"),
        ("pairs", {"class": [1]}, "None"),
        nightly("labels", {"label": [1, 0]}, "[1, 0]"),
        nightly("labels", {"label": [1, 0, 2]}, "[1, 0, 2]"),
    ],
)
def test_example_without_a_label_of_the_model_is_refused(
    export, tmp_path, monkeypatch, kind, features, value
):
    monkeypatch.setattr(onnx_environment, "find_python", lambda report: sys.executable)
    rows = [records.example(text=[b"not UTF-8: \xff"], **features)]
    path = records.write(tmp_path / "rows.gz", rows)
    options = {"target_format": "onnx", "examples": str(path)}
    got = re.compile(re.escape(f"label is {value}, not a label of the model"))
    with refused("E-rows-refused", setting=f"{path}:1", got=got):
        write(export(kind).directory, tmp_path / "folder", **options)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["rows.gz"]


def test_environment_that_cannot_be_installed_is_one_line(tmp_path, monkeypatch):
    lines = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    with refused("E-network-failed") as caught:
        onnx_environment.find_python(lines.append)
    assert "\n" not in caught.value.got
    assert lines[0].startswith("installing ONNX Runtime in")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with refused("E-network-failed", got=re.compile("Not a directory")):
        onnx_environment.find_python(lines.append)
