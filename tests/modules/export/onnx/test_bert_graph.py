"""A pushed model as an ONNX file: its form, and its weights in int8."""

import json

import numpy as np
import pytest

from modules.encoder.directory import open_encoder
from modules.export.onnx import bert_graph, portable_folder
from modules.export.pushed_model import read_pushed
from portable.model import PortableModel
from tests import exported, tiny
from tests.modules.export.onnx import onnx_reader, served

pytestmark = pytest.mark.slow


def test_file_names_its_inputs_and_dynamic_dimensions(export, tmp_path):
    path = tmp_path / "model.onnx"
    bert_graph.write(read_pushed(str(export("pairs").directory)), path)
    model = onnx_reader.read(path)
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


def test_int8_has_the_weights_in_a_byte_and_similar_outputs(export, tmp_path):
    model = export("pairs")
    pushed = read_pushed(str(model.directory))
    portable_folder.write(pushed, tmp_path, is_int8=True)
    file = onnx_reader.read(tmp_path / "model.int8.onnx")
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
    portable = PortableModel(str(tmp_path), file="model.int8.onnx")
    columns = list(zip(*served.PAIRS, strict=True))
    logits = portable.predict(columns)["logits"]
    expected = served.call(model, "serving_default", columns)["logits"]
    assert 0 < abs(logits - expected).max() < 0.1 * np.ptp(expected)


@pytest.mark.nightly
@pytest.mark.parametrize("activation", ["gelu_new", "relu"])
def test_other_activations_are_those_of_the_encoder(tmp_path, activation):
    path = tiny.write_encoder(tmp_path / "encoder")
    (path / "config.json").write_text(
        json.dumps({**tiny.CONFIG, "hidden_act": activation, "layer_norm_eps": 1e-3})
    )
    encoder = open_encoder(str(path))
    model = exported.export(tmp_path, "pairs", encoder, exported.MAX_SEQ_LENGTH)
    served.check(model, tmp_path / "folder")
