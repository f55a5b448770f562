"""Hugging Face folders: sharded, with a prefix, with older names."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from modules.encoder.directory import open_encoder
from modules.encoder.model import build_encoder
from modules.encoder.restoring import check_tensor_names, restore_encoder
from tests import tiny
from tests.modules.encoder import sources

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The tiny encoder, from one file of today's names."""
    directory = tiny.write_encoder(tmp_path_factory.mktemp("plain") / "encoder")
    return sources.stored(directory)[1]


def write_renamed(directory, rename, **more):
    tensors = tiny.hugging_face_tensors()
    tiny.write_encoder(directory)
    renamed = {rename(name): tensor for name, tensor in tensors.items()}
    save_file({**renamed, **more}, directory / "model.safetensors")
    return directory


def open_and_check(directory):
    check_tensor_names(open_encoder(str(directory)))


def test_sharded_folder_is_the_same_encoder_as_one_file(tmp_path, plain):
    encoder, model, left_out = sources.stored(
        sources.write_sharded(tmp_path / "sharded")
    )
    assert len(encoder.weights_files) == 3
    assert left_out == []
    sources.assert_same_weights(model, plain)


def test_shard_that_is_absent_is_named(tmp_path):
    directory = sources.write_sharded(tmp_path / "sharded")
    (directory / "model-00002-of-00003.safetensors").unlink()
    with sources.refused("not-found", directory, "no model-00002-of-00003.safetens"):
        open_encoder(str(directory))


def test_pretraining_heads_are_left_out_by_name(tmp_path, plain):
    heads = {
        "cls.predictions.bias": np.zeros(3, np.float32),
        "cls.predictions.transform.LayerNorm.gamma": np.zeros(3, np.float32),
        "cls.seq_relationship.weight": np.zeros((2, 3), np.float32),
        "bert.embeddings.position_ids": np.arange(64)[None],
    }
    directory = write_renamed(tmp_path / "mlm", lambda name: f"bert.{name}", **heads)
    _, model, left_out = sources.stored(directory)
    assert sorted(left_out) == sorted(heads)
    sources.assert_same_weights(model, plain)


def test_gamma_and_beta_are_the_old_names_of_a_norm(tmp_path, plain):
    def rename(name):
        if "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        return f"bert.{name}"

    _, model, _ = sources.stored(write_renamed(tmp_path / "old", rename))
    sources.assert_same_weights(model, plain)


def test_model_keeps_its_initial_pooler_if_the_folder_has_none(tmp_path, plain):
    absent = {"pooler.dense.weight": None, "pooler.dense.bias": None}
    directory = tiny.write_encoder(tmp_path / "encoder", **absent)
    encoder = open_encoder(str(directory))
    check_tensor_names(encoder)
    model = build_encoder(encoder, dropout=0.0)
    built = model.pooler_layer.get_weights()
    restore_encoder(model, encoder)
    for actual, expected in zip(model.pooler_layer.get_weights(), built, strict=True):
        np.testing.assert_array_equal(actual, expected)
    for actual, expected in zip(model.variables, plain.variables, strict=True):
        if "pooler" not in actual.name:
            np.testing.assert_array_equal(actual.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_other_precisions_are_cast(tmp_path, dtype):
    tensors = {
        name: tensor.astype(dtype)
        for name, tensor in tiny.hugging_face_tensors().items()
    }
    directory = tiny.write_encoder(tmp_path / "encoder", **tensors)
    _, model, _ = sources.stored(directory)
    kernel, bias = model.pooler_layer.get_weights()
    assert kernel.dtype == np.float32
    cast = tensors["pooler.dense.weight"].astype(np.float32)
    np.testing.assert_array_equal(kernel, cast.T)
    np.testing.assert_array_equal(bias, tensors["pooler.dense.bias"].astype(np.float32))


@pytest.mark.parametrize(
    ("changes", "kind", "got"),
    [
        (
            {"encoder.layer.0.output.dense.weight": np.ones((16, 32), np.int8)},
            *("not-supported", r"encoder\.layer\.0\.output\.dense\.weight \(I8\)"),
        ),
        (
            {"encoder.layer.0.output.dense.weight": np.ones((32, 16), np.float32)},
            *(
                "file-damaged",
                r"dense.weight has shape \(32, 16\) instead of \(16, 3",
            ),
        ),
        (
            {"pooler.dense.weight": None},
            "file-damaged",
            "^missing pooler.dense.weight",
        ),
        (
            {
                "encoder.layer.1.output.dense.bias": None,
                "encoder.layer.0.intermediate.dense.weight": None,
                "classifier.weight": np.zeros((2, 16), np.float32),
                "cls.bias": np.zeros(3, np.float32),
                # A second one.
                "bert.embeddings.LayerNorm.gamma": np.zeros(16, np.float32),
                "embeddings.position_embeddings.weight": np.ones((32, 16), np.float32),
                "pooler.dense.bias": np.ones(8, np.float32),
            },
            "file-damaged",
            "^missing encoder.layer.0.intermediate.dense.weight, "
            "encoder.layer.1.output.dense.bias; "
            "unexpected bert.embeddings.LayerNorm.gamma, classifier.weight, cls.bias; "
            r"embeddings.position_embeddings.weight has shape \(32, 16\) instead of "
            r"\(64, 16\); pooler.dense.bias has shape \(8,\) instead of \(16,\)$",
        ),
    ],
)
def test_tensors_that_do_not_match_are_named(tmp_path, changes, kind, got):
    directory = tiny.write_encoder(tmp_path / "encoder", **changes)
    for use in (open_and_check, sources.stored):
        with sources.refused(kind, directory / "model.safetensors", got):
            use(directory)


@pytest.mark.parametrize(
    ("damage", "got"),
    [
        (lambda content: content[:-10], "bytes; its header lists"),
        (lambda content: content[:4], "not a safetensors file"),
        (lambda content: content[:8] + b"x" + content[9:], "not a safetensors file"),
    ],
)
def test_damaged_file_is_refused(tmp_path, damage, got):
    directory = tiny.write_encoder(tmp_path / "encoder")
    path = directory / "model.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with sources.refused("file-damaged", path, got):
        open_and_check(directory)


def test_index_without_a_map_is_refused(tmp_path):
    directory = sources.write_sharded(tmp_path / "sharded")
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({}))
    with sources.refused("file-damaged", index, "no weight_map"):
        open_encoder(str(directory))
