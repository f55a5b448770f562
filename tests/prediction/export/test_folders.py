"""A pushed model as a folder for Transformers, checked without Transformers."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)
from click.testing import CliRunner
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from contracts.packing import Packing
from contracts.versions import exported_model, served_versions
from modules.data import preprocessing, tokenizer_files
from modules.encoder import hugging_face
from modules.encoder.directory import open_encoder
from modules.encoder_files import EncoderError
from modules.training import computation
from pipeline.cli.main import main
from prediction.export import folders
from tests import exported, tiny
from tests.nightly import nightly
from tests.prediction.export import bert
from tests.refusals import refused

pytestmark = pytest.mark.slow

UNSUPPORTED = "E-export-unsupported"
KINDS = [
    "pairs",
    *map(nightly, ("sentences", "scores", "labels", "tokens of pairs")),
]
WORDS = ["the", "cats", "see", "dog", "birding", "xyz", ",", "[SEP]", "[MASK]", "É!"]


def push(model, directory, **changes):
    """Pushes a model as version 7, with changes to its description."""
    described = exported_model.read_description(str(model))
    copy = shutil.copytree(model, directory / "changed")
    exported_model.write_description(str(copy), described | changes)
    served_versions.push(str(copy), str(directory / "served"), "7")
    return directory / "served"


def write(model, target):
    """Exports to a new directory; returns it and the lines that were printed."""
    lines = []
    folders.export(str(model), str(target), lines.append)
    return target, lines


@pytest.fixture(scope="module")
def folder(export, tmp_path_factory):
    """The folder of a model of pairs of three classes."""
    root = tmp_path_factory.mktemp("portable")
    target, _ = write(push(export("pairs").directory, root), root / "folder")
    return target


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_equal_those_of_the_pushed_model(export, tmp_path, kind):
    model = export(kind)
    task = model.task
    target, _ = write(push(model.directory, tmp_path), tmp_path / "folder")
    # The pair that both tokenizers cut differently is left out.
    texts = [
        row[: len(task.text_columns)]
        for row in (*exported.PAIRS[:2], ("the cat " * 40, "a dog " * 8), ("a", ""))
    ]
    served = tf.saved_model.load(str(model.directory)).signatures["serving_default"]
    columns = map(tf.constant, zip(*texts, strict=True))
    outputs = served(**dict(zip(task.text_columns, columns, strict=True)))
    expected = outputs["score"][:, None] if task.classes is None else outputs["logits"]
    config = json.loads((target / "config.json").read_text())
    tensors = load_file(target / "model.safetensors")
    actual = bert.classify(tensors, config, *bert.encode(target, texts))
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    assert config["text_columns"] == task.text_columns
    assert config["max_seq_length"] == exported.MAX_SEQ_LENGTH
    labels = task.classes or ["score"]
    assert list(config["id2label"].values()) == labels
    assert config["label2id"] == {label: index for index, label in enumerate(labels)}
    problems = {"scores": "regression", "labels": "multi_label_classification"}
    problem = problems.get(kind, "single_label_classification")
    assert config["problem_type"] == problem


def test_token_ids_differ_in_the_stated_case_only(folder, tmp_path):
    random = np.random.default_rng(0)
    counts = random.integers(0, 30, [300, 2])
    texts = [tuple(" ".join(random.choice(WORDS, n)) for n in row) for row in counts]
    ids, mask, types = bert.encode(folder, texts)
    directory = tiny.write_encoder(tmp_path / "encoder")
    packed = preprocessing.text_to_inputs(
        [tf.constant(column) for column in zip(*texts, strict=True)],
        str(directory / "vocab.txt"),
        Packing(max_seq_length=exported.MAX_SEQ_LENGTH),
    )
    rows = packed["input_word_ids"].to_list(), packed["input_type_ids"].to_list()
    readme = (folder / "README.md").read_text()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    # As the README says, this makes the same ids in all cases.
    functions = {"tokenizer": lambda text, **kw: {"input_ids": _whole(tokenizer, text)}}
    exec(readme.split("```python")[2].split("```")[0], functions)
    cut = []
    for pair, word_ids, used, type_ids, *expected in zip(
        texts, ids, mask, types, *rows, strict=True
    ):
        length = used.sum()
        actual = word_ids[:length].tolist(), type_ids[:length].tolist()
        first, second = (len(_whole(tokenizer, text)) for text in pair)
        is_stated = first > 10 and second > 10 and second >= first
        assert (actual == tuple(expected)) != is_stated, pair
        assert functions["encode"](*pair) == tuple(expected)
        cut.append(is_stated)
    assert 0 < sum(cut) < len(cut)
    assert "if both texts have more than 10 tokens and the second is at" in readme


def _whole(tokenizer, text):
    whole = Tokenizer.from_str(tokenizer.to_str())
    whole.no_truncation()
    return whole.encode(text, add_special_tokens=False).ids


def test_folder_has_the_tokenizer_that_this_pipeline_reads(folder):
    settings = tokenizer_files.read_tokenizer(str(folder / "vocab.txt")).settings
    described = exported_model.read_description(str(folder.parent / "served" / "7"))
    assert dataclasses.asdict(settings) == described["tokenizer"]
    for name in ("vocab.txt", "tokenizer.json"):
        assert tokenizer_files.read_words(str(folder / name)) == tiny.VOCAB
    encoder = open_encoder(str(folder))
    got = "unexpected classifier.bias, classifier.weight"  # the head of a task
    with refused("E-encoder-file-damaged", EncoderError, got=got):
        hugging_face.HuggingFaceWeights(encoder)


def test_command_exports_a_version_and_states_the_case(folder, tmp_path):
    target = tmp_path / "folder"
    arguments = ["--model", str(folder.parent / "served"), "--output", str(target)]
    arguments = ["export", "--format", "huggingface", *arguments]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert f"served, version 7 is exported to {target}" in result.output
    assert "differs in one case: if both texts have more than 10" in result.output
    for name in ("config.json", "model.safetensors", "tokenizer.json", "README.md"):
        assert (target / name).read_bytes() == (folder / name).read_bytes()
    assert not list(tmp_path.glob(".*"))
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 2
    assert "[E-destination-exists]" in again.output


def test_card_of_the_version_is_beside_the_readme(export, tmp_path):
    served = push(export("pairs").directory, tmp_path)
    (served / "7" / "README.md").write_text("# The card\n")
    target, _ = write(served, tmp_path / "folder")
    assert (target / "MODEL_CARD.md").read_text() == "# The card\n"
    assert "`MODEL_CARD.md` is the card" in (target / "README.md").read_text()


def test_even_budget_has_no_different_case(export, tmp_path):
    length = exported.MAX_SEQ_LENGTH - 1
    served = push(export("pairs").directory, tmp_path, max_seq_length=length)
    target, lines = write(served, tmp_path / "folder")
    assert len(lines) == 1
    assert "differs" not in (target / "README.md").read_text()


@pytest.mark.nightly
def test_scale_of_scores_is_part_of_the_head(export, tmp_path):
    heads = []
    for mean, std in ((0.0, 1.0), (90.5, 2.0)):
        root = tmp_path / str(mean)
        root.mkdir()
        served = push(export("scores").directory, root, score_scale=[mean, std])
        tensors = load_file(write(served, root / "folder")[0] / "model.safetensors")
        heads.append([tensors["classifier.weight"], tensors["classifier.bias"]])
    (kernel, bias), scaled = heads
    np.testing.assert_array_equal(scaled[0], kernel * 2)
    np.testing.assert_allclose(scaled[1], bias * 2 + 90.5)


@pytest.mark.parametrize(
    ("changes", "name", "got"),
    [
        ({"activation": "swish"}, UNSUPPORTED, "the activation 'swish'"),
        ({"num_hidden_layers": 3}, UNSUPPORTED, "missing transformer/layer_2/"),
        ({"format": 2}, "E-file-format-other", "2"),
        ({"long_text": {"window": 9}}, UNSUPPORTED, r"windows .*long_text: \{'win"),
        ({"keep": "tail"}, UNSUPPORTED, r"\(preprocessing\.keep: tail\)"),
    ],
)
def test_model_without_a_counterpart_is_refused(export, tmp_path, changes, name, got):
    model = shutil.copytree(export("pairs").directory, tmp_path / "7")
    path = model / exported_model.DESCRIPTION_FILE
    described = json.loads(path.read_text())
    path.write_text(json.dumps(described | changes))
    with refused(name, got=re.compile(got)):
        write(model, tmp_path / "folder")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["7"]


def test_version_that_is_not_served_is_refused(export, tmp_path):
    served = push(export("pairs").directory, tmp_path)
    withdrawn = served / served_versions.WITHDRAWN / "7"
    withdrawn.parent.mkdir()
    (served / "7").rename(withdrawn)
    fields = {"setting": "model", "advice": re.compile("`rollback 7`")}
    with refused("E-model-withdrawn", **fields):
        write(withdrawn, tmp_path / "folder")
    with refused("E-model-not-found", setting="model"):
        write(served, tmp_path / "folder")
    (withdrawn / "variables" / "variables.index").unlink()
    got = re.compile("^incomplete: variables/variables.index")
    with refused("E-model-damaged", setting=str(withdrawn), got=got):
        write(withdrawn, tmp_path / "folder")
    (withdrawn / exported_model.DESCRIPTION_FILE).unlink()
    (withdrawn / served_versions.MANIFEST_FILE).unlink()
    other = shutil.copytree(export("pairs").directory, tmp_path / "other" / "1")
    (other / exported_model.DESCRIPTION_FILE).unlink()
    with refused("E-model-not-found", setting="model"):
        write(other, tmp_path / "folder")


@pytest.mark.nightly
def test_weights_in_bfloat16_are_exported_in_float32(tmp_path):
    path = tiny.write_encoder(tmp_path / "encoder")
    with computation.stored_in("bfloat16"):
        model = exported.export(
            tmp_path, "pairs", open_encoder(str(path)), exported.MAX_SEQ_LENGTH
        )
    served = push(model.directory, tmp_path, precision="bfloat16")
    target, _ = write(served, tmp_path / "folder")
    tensors = load_file(target / "model.safetensors")
    expected = tiny.hugging_face_tensors()["pooler.dense.weight"]
    actual = tensors["bert.pooler.dense.weight"]
    assert actual.dtype == np.float32
    np.testing.assert_array_equal(actual, tf.cast(expected, tf.bfloat16).numpy())
    assert (
        "weights in bfloat16 and computes in it" in (target / "README.md").read_text()
    )


@pytest.mark.nightly
def test_version_in_a_bucket_is_exported(export, bucket, folder, tmp_path):
    model = str(export("pairs").directory)
    served_versions.push(model, f"{bucket}/served", "7")
    target, _ = write(f"{bucket}/served", tmp_path / "folder")
    name = "model.safetensors"
    assert (target / name).read_bytes() == (folder / name).read_bytes()
    assert "# served, version 7" in (target / "README.md").read_text()


def test_remote_destination_is_refused(folder):
    with refused("E-local-path-required", setting="destination", got="gs://bucket/x"):
        write(folder.parent / "served", "gs://bucket/x")
