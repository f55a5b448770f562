"""Damaged and foreign portable folders are refused in one line."""

import json
import re
import shutil

import numpy as np
import pytest

from contracts.versions import served_versions
from modules.export.onnx import bert_graph, onnx_file, portable_folder
from modules.export.onnx.onnx_file import _message as message
from modules.export.pushed_model import read_pushed
from portable import folder
from portable.model import PortableModel
from tests.refusals import refused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pushed(export):
    """A pushed model of pairs of three classes."""
    return read_pushed(str(export("pairs").directory))


@pytest.fixture(scope="module")
def complete(pushed, tmp_path_factory):
    """A complete folder."""
    directory = tmp_path_factory.mktemp("portable")
    portable_folder.write(pushed, directory)
    return directory


@pytest.fixture
def copy(complete, tmp_path):
    """A copy of the folder, to damage."""
    return shutil.copytree(complete, tmp_path / "copy")


def open_model(directory, **options):
    return PortableModel(str(directory), **options)


def refuse(directory, got, name="E-model-damaged", **options):
    """Expects an error of one line, and returns it."""
    with refused(name, got=re.compile(got)) as caught:
        open_model(directory, **options)
    assert "\n" not in str(caught.value)


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "characters.json"])
def test_folder_without_a_file_is_refused(copy, name):
    (copy / name).unlink()
    refuse(copy, f"{name}: missing")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "characters.json"])
@pytest.mark.parametrize("share", [0, 0.5])
def test_truncated_file_is_refused(copy, name, share):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: int(len(content) * share)])
    refuse(copy, name)
    manifest = served_versions.read_manifest(str(copy))
    assert manifest[name]["size"] == len(content)


def test_truncated_description_is_refused(copy):
    content = (copy / "model.json").read_text()
    (copy / "model.json").write_text(content[:100])
    refuse(copy, "model.json: ")
    edit_to = {key: v for key, v in json.loads(content).items() if key != "packing"}
    (copy / "model.json").write_text(json.dumps(edit_to))
    refuse(copy, "model.json: packing: Field required")


@pytest.mark.parametrize("name", ["model.json", "characters.json"])
def test_other_format_is_refused(copy, name):
    edit(copy / name, format=2)
    refuse(copy, "2", "E-file-format-other")


def test_operators_of_a_later_onnx_are_refused(pushed, copy, monkeypatch):
    monkeypatch.setattr(onnx_file, "OPSET", 99)
    bert_graph.write(pushed, copy / "model.onnx")
    edit(copy / "model.json", opset=99)
    refuse(copy, r"ONNX Runtime [\d.]+ cannot load .*operators have version 99")


def test_other_kind_of_model_is_refused(export, tmp_path):
    version = export("pairs").directory
    refuse(version, "has no model.json", "E-model-not-found")
    refuse(tmp_path / "missing", "has no model.json", "E-model-not-found")


def test_onnx_file_with_other_inputs_or_outputs_is_refused(copy, complete):
    for old, new in ((b"token_type_ids", b"token_type_xyz"), (b"logits", b"scores")):
        content = (complete / "model.onnx").read_bytes().replace(old, new)
        (copy / "model.onnx").write_bytes(content)
        refuse(copy, f"model.onnx has the inputs .*{new.decode()}")
    shutil.copy(complete / "model.onnx", copy / "model.onnx")
    edit(copy / "model.json", classes=["no", "yes"])
    refuse(copy, r"has the inputs .* and the outputs {'logits': \[3\]}")


def test_tokenizer_of_another_vocabulary_is_refused(copy):
    path = copy / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    size = len(vocabulary)
    vocabulary["word"] = size
    path.write_text(json.dumps(tokenizer))
    refuse(copy, f"it has {size + 1} tokens, and the model {size}$")


def test_tokenizer_of_another_kind_is_refused(copy):
    path = copy / "tokenizer.json"
    edit(path, model={"type": "BPE", "vocab": {}, "merges": []})
    refuse(copy, "tokenizer.json: its model is BPE instead of WordPiece")
    path.write_text("[]")
    refuse(copy, "tokenizer.json: ")


@pytest.mark.parametrize(
    ("changes", "got"),
    [
        ({"kind": "several"}, "kind: "),
        ({"kind": "multilabel", "classes": None}, "classes: missing"),
        ({"classes": ["a", "b", "a"]}, r"\[\'a\', \'b\', \'a\'\] are not distinct"),
        ({"text_columns": ["text", "text"]}, ".* are not distinct"),
        ({"threshold": 0.5}, "threshold: 0.5"),
        ({"kind": "multilabel", "threshold": [0.5, 0.5]}, "threshold: "),
        ({"kind": "multilabel", "threshold": 0.5}, "threshold: "),
        ({"temperature": float("inf")}, "temperature: "),
        (
            {"packing": {"max_seq_length": 64, "long_text": {"window": 16}}},
            "packing.long_text: a pair",
        ),
    ],
)
def test_description_that_contradicts_itself_is_refused(copy, changes, got):
    edit(copy / "model.json", **changes)
    refuse(copy, f"model.json: {got}")


@pytest.mark.parametrize(
    ("changes", "got"),
    [
        ({"ranges": [[97, 98, "{0.__class__}"]]}, "ranges.0.2: "),
        ({"ranges": [[97, 0x110000, " "]]}, "ranges.0.1: "),
        ({"ranges": [[98, 97, " "]]}, "ranges: they are not in order"),
        ({"replacements": {"ab": "c"}}, "replacements.ab"),
        ({"replacements": {"a": "\ud800"}}, "replacements.a: "),
    ],
)
def test_replacements_of_no_character_are_refused(copy, changes, got):
    edit(copy / "characters.json", **changes)
    refuse(copy, f"characters.json: {got}")


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]", "[UNK]"])
def test_tokenizer_without_a_special_token_is_refused(copy, token):
    path = copy / "tokenizer.json"
    path.write_text(path.read_text().replace(json.dumps(token) + ":", '"[NEW]":'))
    refuse(copy, re.escape(f"its vocabulary has no {token!r}"))


def test_tokenizer_with_another_longest_word_is_refused(copy):
    path = copy / "tokenizer.json"
    model = json.loads(path.read_text())["model"]
    edit(path, model={**model, "max_input_chars_per_word": 5})
    refuse(copy, "its longest word has 5 characters, and that of model.json 100$")


def test_tokenizer_with_words_of_its_own_is_refused(copy):
    path = copy / "tokenizer.json"
    word = {"id": 0, "content": "the", "special": False, "normalized": True}
    word |= {"single_word": False, "lstrip": False, "rstrip": False}
    edit(path, added_tokens=[word])
    refuse(copy, "its added token 'the' is not special")


def test_longer_text_than_the_positions_is_refused(copy, capfd):
    edit(copy / "model.json", packing={"max_seq_length": 10**9})
    model = open_model(copy)
    with refused("E-model-damaged", got=re.compile("cannot be run: ")) as caught:
        model.predict([["word " * 4000], ["b"]])
    assert "\n" not in str(caught.value)
    assert not capfd.readouterr().err


def test_logits_of_another_shape_than_the_file_declares_are_refused(copy):
    graph = onnx_file.Graph()
    value = graph.constant("fixed", np.zeros((1, 3), np.float32))
    inputs = {name: ["batch", "seq_len"] for name in folder.INPUTS}
    outputs = {folder.LOGITS: (value, ["batch", 3])}
    graph.write(copy / "model.onnx", "fixed", inputs, outputs)
    model = open_model(copy)
    got = re.compile(r"the shape \(1, 3\) instead of \(2, 3\)")
    with refused("E-model-damaged", got=got):
        model.predict([["a", "b"], ["c", "d"]])


@pytest.mark.parametrize("location", ["../weights.bin", "weights.bin", "/etc/passwd"])
def test_weights_in_another_file_are_refused(copy, location):
    for directory in (copy, copy.parent):
        (directory / "weights.bin").write_bytes(bytes(64))
    path = copy / "model.onnx"
    entry = message((1, "location"), (2, location))
    tensor = message((1, 16), (2, 1), (8, "more"), (13, entry), (14, 1))
    # Parts of a message that follow it are added to it.
    more = message((7, message((5, tensor))))
    path.write_bytes(path.read_bytes() + b"".join(more))
    refuse(copy, "model.onnx: it reads weights from another file")


def test_missing_int8_file_is_refused(copy):
    got = f"{folder.INT8_FILE}$"
    refuse(copy, got, "E-options-conflict", file=folder.INT8_FILE)
