"""Resolving and importing the encoder of a configuration."""

import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_hub import compressed_module_resolver

from contracts.packing import Packing
from ingest.working_directory import WorkingDirectory
from modules.data import preprocessing, row_facts
from modules.encoder import conversion
from modules.encoder.directory import open_encoder
from modules.encoder_files import EncoderError
from modules.export import serving_model
from modules.training import experiment
from pipeline.config.paths import DEFAULT_CONFIG, OutputPaths
from pipeline.config.recipe import load_config
from pipeline.inputs import encoder_source
from pipeline.inputs.encoder_source import resolve_encoder
from tests import tiny
from tests.modules.encoder import sources
from tests.nightly import nightly
from tests.refusals import refused
from tests.unprivileged import unprivileged

pytestmark = pytest.mark.slow

WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"


HANDLES = [
    "https://tfhub.dev/tensorflow/bert_en_uncased_L-12_H-768_A-12/4",
    "https://www.kaggle.com/models/tensorflow/bert/tensorFlow2/en-uncased/4",
]


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    def fail(*_):
        raise OSError("Name or service not known")

    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("socket.getaddrinfo", fail)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The tiny encoder as a Model Garden checkpoint; tests change copies of it."""
    directory = tmp_path_factory.mktemp("checkpoint")
    source = tiny.write_encoder(directory / "source")
    encoder_source.import_encoder(str(source), directory / "imported")
    return directory / "imported"


def test_remote_encoder_without_a_network_is_refused_with_advice(tmp_path, monkeypatch):
    monkeypatch.setenv("GCS_RETRY_CONFIG_MAX_RETRIES", "1")
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    config = load_config(recipe, {"encoder.source": "gs://no-such-bucket/encoder"})
    with refused("E-network-failed") as caught:
        resolve_encoder(config)
    assert "gs://no-such-bucket" in str(caught.value)


@pytest.mark.parametrize("absent", ["encoder.layer.0.output.dense.bias", ""])
def test_weights_that_cannot_be_restored_are_refused_before_the_run(tmp_path, absent):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    weights = b"\x80\x04pickle"
    if absent:
        other = tiny.write_encoder(tmp_path / "other", **{absent: None})
        weights = (other / "model.safetensors").read_bytes()
    (tmp_path / "encoder" / "model.safetensors").write_bytes(weights)
    kind = EncoderError
    with refused("E-encoder-file-damaged", kind, got=re.compile(re.escape(absent))):
        resolve_encoder(load_config(recipe))


def test_directory_that_cannot_be_listed_is_refused_with_one_line(tmp_path):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    with unprivileged(tmp_path / "encoder") as encoder:
        settings = config.encoder.model_copy(update={"source": str(encoder)})
        encoder.chmod(0o300)
        with refused("E-storage-failed") as caught:
            resolve_encoder(config.model_copy(update={"encoder": settings}))
        assert re.fullmatch(f"{encoder}.*Permission denied.*", str(caught.value))


def test_sequences_longer_than_the_encoders_positions_are_refused(tmp_path):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    length, window = "preprocessing.max_seq_length", "preprocessing.long_text.window"
    single = {"task.text_columns": ["sentence1"], length: 99}
    allowed = re.compile("^8 to 64 with the encoder ")
    for settings, setting, got, advice in [
        ({length: 65}, length, "65", "^$"),
        (single, length, "99", "preprocessing.long_text reads longer texts"),
        ({**single, window: 65}, window, "65", "^$"),
    ]:
        fields = {"got": got, "allowed": allowed, "advice": re.compile(advice)}
        with refused("E-settings-refused", setting=setting, **fields):
            resolve_encoder(load_config(path, settings))
    assert resolve_encoder(load_config(path, {**single, window: 64}))


def test_default_encoder_comes_with_its_licence():
    source = load_config(DEFAULT_CONFIG).encoder.source
    package, _, path = source.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(package)
    directory = Path(spec.submodule_search_locations[0]) / path
    assert "Apache License" in (directory / "LICENSE").read_text()
    assert (directory / "NOTICE").is_file()


def change_a_byte(file):
    """Changes a file, and keeps its size."""
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)


def saved_model_config(tmp_path, **settings):
    """A recipe whose encoder is a SavedModel directory."""
    path = tiny.write_config(tmp_path / "recipe.yaml")
    shutil.rmtree(tmp_path / "encoder")
    sources.write_saved_model(tmp_path / "encoder")
    return load_config(path, settings)


def test_saved_model_is_imported_once_and_used_until_it_is_damaged(tmp_path):
    config = saved_model_config(tmp_path)
    paths, reported = OutputPaths.of(config), []
    resolved = resolve_encoder(config, paths, reported.append)
    directory = Path(resolved.directory)
    assert directory.parent == paths.root / "encoders"
    assert open_encoder(resolved.directory).is_model_garden
    assert len(reported) == 1
    assert f"to {directory}" in reported[0]
    written = (directory / "bert_model.ckpt.index").stat().st_mtime_ns
    assert resolve_encoder(config, paths, reported.append) == resolved
    assert (directory / "bert_model.ckpt.index").stat().st_mtime_ns == written
    assert len(reported) == 1
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]
    # A damaged import is written again.
    change_a_byte(directory / "bert_model.ckpt.index")
    assert resolve_encoder(config, report=reported.append) == resolved
    assert reported[1:] == [
        f"{directory} is written again: 1 of its files are missing or have changed",
        f"importing the encoder {tmp_path / 'encoder'} to {directory}",
    ]


def test_import_of_a_process_killed_after_publishing_is_checked(tmp_path, monkeypatch):
    config = saved_model_config(tmp_path)
    publish = WorkingDirectory.publish

    def killed(*arguments):
        publish(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(WorkingDirectory, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            resolve_encoder(config)
    (directory,) = (OutputPaths.of(config).root / "encoders").iterdir()
    index = directory / "bert_model.ckpt.index"
    index.unlink()
    resolve_encoder(config)
    assert index.is_file()


def test_two_processes_that_need_the_same_source_import_it_once(tmp_path, monkeypatch):
    config = saved_model_config(tmp_path)
    convert, imports = conversion.convert, []

    def convert_while_another_begins(*arguments):
        imports.append(arguments)
        if len(imports) == 1:
            other.start()
            other.join(0.5)
        return convert(*arguments)

    results = []
    other = threading.Thread(target=lambda: results.append(resolve_encoder(config)))
    monkeypatch.setattr(conversion, "convert", convert_while_another_begins)
    resolved = resolve_encoder(config)
    other.join(60)
    assert results == [resolved]
    assert len(imports) == 1
    directory = Path(resolved.directory)
    assert [path.name for path in directory.parent.iterdir()] == [directory.name]
    assert not (directory / ".lock").exists()


def test_edited_source_is_imported_anew(tmp_path):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    sources.write_tokenizer(tmp_path / "encoder")
    first = resolve_encoder(load_config(path))
    swapped = [*tiny.VOCAB[:-2], *tiny.VOCAB[:-3:-1]]
    (tmp_path / "encoder" / "vocab.txt").touch()
    sources.write_tokenizer(tmp_path / "encoder", swapped)
    second = resolve_encoder(load_config(path))
    assert first.directory != second.directory
    assert first.vocab_fingerprint != second.vocab_fingerprint


def write_source(directory, kind, checkpoint):
    """Writes the tiny encoder as a kind of source; returns the files that are read."""
    if kind == "SavedModel":
        sources.write_saved_model(directory)
        data = "variables/variables.data-00000-of-00001"
        return ["saved_model.pb", "assets/vocab.txt", "variables/variables.index", data]
    if kind == "Model Garden":
        shutil.copytree(checkpoint, directory)
        data = "bert_model.ckpt.data-00000-of-00001"
        return ["bert_config.json", "vocab.txt", "bert_model.ckpt.index", data]
    sources.write_sharded(directory)
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    shards = [f"model-0000{index}-of-00003.safetensors" for index in (1, 2, 3)]
    settings = ["config.json", "tokenizer_config.json", "vocab.txt"]
    return [*settings, "model.safetensors.index.json", *shards]


@pytest.mark.parametrize(
    "kind", [nightly("SavedModel"), "Model Garden", "Hugging Face"]
)
def test_checksum_covers_all_files_of_a_source(tmp_path, checkpoint, kind):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    shutil.rmtree(tmp_path / "encoder")
    files = write_source(tmp_path / "encoder", kind, checkpoint)
    with refused("E-encoder-changed") as caught:
        resolve_encoder(load_config(path, {"encoder.sha256": "0" * 64}))
    (sha256,) = re.findall("encoder.sha256=([0-9a-f]{64})", caught.value.advice)
    config = load_config(path, {"encoder.sha256": sha256})
    (tmp_path / "encoder" / "README.md").write_text("is not read")
    resolve_encoder(config)
    for name in files:
        file = tmp_path / "encoder" / name
        content = file.read_bytes()
        file.write_bytes(content + b"\n")
        with refused("E-encoder-changed", setting="encoder.sha256"):
            resolve_encoder(config)
        file.write_bytes(content)


def test_imported_encoder_that_changed_since_is_refused_before_the_run(tmp_path):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    imported = tmp_path / "imported"
    encoder_source.import_encoder(str(tmp_path / "encoder"), imported)
    config = load_config(path, {"encoder.source": str(imported)})
    (imported / "notes.txt").write_text("mine")
    resolve_encoder(config)
    change_a_byte(imported / "bert_model.ckpt.data-00000-of-00001")
    got = re.compile("^bert_model.ckpt.data-00000-of-00001 changed after import-enc")
    with refused("E-encoder-changed", setting=str(imported), got=got):
        resolve_encoder(config)
    (imported / ".files.json").unlink()
    resolve_encoder(config)


@pytest.mark.parametrize("file", ["config.json", "vocab.txt", "model.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipe_or_device_in_an_encoder_is_refused(tmp_path, file, kind):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    special = tmp_path / "encoder" / file
    special.unlink()
    if kind == "pipe":
        os.mkfifo(special)
    else:
        special.symlink_to("/dev/zero")
    damaged = {"name": "E-encoder-file-damaged", "setting": str(special)}
    with refused(**damaged):
        resolve_encoder(load_config(path))
    with refused(**damaged):
        encoder_source.import_encoder(str(tmp_path / "encoder"), tmp_path / "imported")
    assert not (tmp_path / "imported").exists()


def test_links_of_the_cache_of_hugging_face_are_followed(tmp_path):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    expected = resolve_encoder(load_config(path)).fingerprint
    folder, blobs = tmp_path / "encoder", tmp_path / "blobs"
    blobs.mkdir()
    for index, file in enumerate(sorted(folder.iterdir())):
        file.rename(blobs / str(index))
        file.symlink_to(f"../blobs/{index}")
    assert resolve_encoder(load_config(path)).fingerprint == expected


@pytest.mark.parametrize("name", ["../stolen", "/absolute/stolen", "a/../../stolen"])
def test_index_of_weights_outside_of_the_folder_is_refused(tmp_path, name):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    shutil.rmtree(tmp_path / "encoder")
    sources.write_sharded(tmp_path / "encoder")
    index = tmp_path / "encoder" / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"] |= {next(iter(content["weight_map"])): name}
    index.write_text(json.dumps(content))
    with refused("E-encoder-file-damaged", got=re.compile(re.escape(name))):
        resolve_encoder(load_config(path))


def add(archive, name, kind, link=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, 6 * (kind == b"0")
    archive.addfile(member, io.BytesIO(b"stolen"))


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [
        ("../escaped", tarfile.REGTYPE, ""),
        ("a/../../escaped", tarfile.REGTYPE, ""),
        ("link", tarfile.SYMTYPE, "../.."),
        ("link", tarfile.SYMTYPE, "/etc"),
        ("link", tarfile.LNKTYPE, "/etc/passwd"),
        ("device", tarfile.CHRTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("/escaped", tarfile.REGTYPE, ""),  # which TF Hub writes to the cache
    ],
)
def test_archive_of_a_handle_writes_nothing_outside_of_the_cache(
    tmp_path, no_network, monkeypatch, name, kind, link
):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        add(archive, name, kind, link)
    buffer.seek(0)
    monkeypatch.setattr(
        compressed_module_resolver.HttpCompressedFileResolver,
        "_call_urlopen",
        lambda *_: buffer,
    )
    if name.startswith("/"):
        located = Path(encoder_source.locate(HANDLES[0], "encoder.source"))
        assert [path.name for path in located.iterdir()] == ["escaped"]
    else:
        got = re.compile(r"cannot be downloaded \(ValueError: ")
        with refused("E-network-failed", setting="encoder.source", got=got):
            encoder_source.locate(HANDLES[0], "encoder.source")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    assert "escaped" not in os.listdir(tmp_path / "cache")
    assert not Path("/escaped").exists()


def test_lower_casing_changes_the_fingerprint_of_the_vocabulary(tmp_path):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    uncased = resolve_encoder(load_config(path))
    (tmp_path / "encoder" / "tokenizer_config.json").write_text(
        '{"do_lower_case": false}'
    )
    cased = resolve_encoder(load_config(path))
    assert cased.vocab_fingerprint != uncased.vocab_fingerprint
    assert cased.fingerprint != uncased.fingerprint


def test_files_of_a_tokenizer_are_read_once_before_a_run_and_once_in_it(
    tmp_path, monkeypatch
):
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    tokenizer = json.dumps(tiny.tokenizer_json())
    (tmp_path / "encoder" / "tokenizer.json").write_text(tokenizer)
    opened, gfile = [], tf.io.gfile.GFile

    def read(path, mode):
        opened.append(os.path.basename(path))
        return gfile(path, mode)

    monkeypatch.setattr(tf.io.gfile, "GFile", read)
    encoder = resolve_encoder(config)
    experiment.check_settings(config.trainer, encoder.directory)
    assert (opened.count("tokenizer.json"), opened.count("vocab.txt")) == (1, 1)
    opened.clear()
    for length in (8, 16):  # each traces a tokenizer
        texts = [tf.constant(["the cat"])]
        packing = Packing(max_seq_length=length)
        preprocessing.text_to_inputs(texts, encoder.vocab_file, packing)
    row_facts.count_tokens([["the cat"]], encoder.vocab_file)
    serving_model.find_tokens(texts, encoder.vocab_file, packing)
    assert (opened.count("tokenizer.json"), opened.count("vocab.txt")) == (1, 1)


def test_model_garden_checkpoint_that_does_not_fit_is_refused_before_the_run(
    tmp_path, checkpoint
):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    shutil.copytree(checkpoint, tmp_path / "imported")
    (tmp_path / "imported" / ".files.json").unlink()  # else the edit is refused
    config = tmp_path / "imported" / "bert_config.json"
    settings = json.loads(config.read_text()) | {"num_hidden_layers": 3}
    config.write_text(json.dumps(settings))
    location = {"encoder.source": str(tmp_path / "imported")}
    with refused("E-encoder-file-damaged", got=re.compile("transformer/layer_2/")):
        resolve_encoder(load_config(path, location))


def published(directory):
    """Writes the tiny encoder as unusually as is accepted; returns its vocabulary.

    The table is padded, `[PAD]` has another id, a second configuration is stale, and
    lines end as on Windows.
    """
    words = [*tiny.VOCAB[1:], tiny.VOCAB[0]]
    table = np.roll(tiny.hugging_face_tensors()[WORD_EMBEDDINGS], -1, axis=0)
    table = np.concatenate([table, np.ones((9, tiny.HIDDEN), np.float32)])
    tiny.write_encoder(directory, **{WORD_EMBEDDINGS: table})
    sources.write_config(directory, vocab_size=len(table))
    (directory / "vocab.txt").write_text("\r\n".join(words))
    stale = {**tiny.CONFIG, "type_vocab_size": 1, "do_lower_case": False}
    (directory / "bert_config.json").write_text(json.dumps(stale))
    return words


def test_padded_table_is_described(tmp_path):
    words = published(tmp_path / "published")
    imported = encoder_source.import_encoder(
        str(tmp_path / "published"), tmp_path / "imported"
    )
    tokens = f" {len(words)} tokens in a table of {len(words) + 9} "
    assert tokens in encoder_source.describe(imported)[0]


@pytest.mark.nightly
def test_encoder_predicts_the_same_however_it_is_published(tmp_path):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    words = published(tmp_path / "published")
    encoder_source.import_encoder(str(tmp_path / "published"), tmp_path / "imported")
    _, expected = predict(str(tmp_path / "encoder"))
    for name in ("published", "imported"):
        source = {"encoder.source": str(tmp_path / name)}
        resolved = resolve_encoder(load_config(path, source))
        tokens, outputs = predict(resolved.directory)
        assert [words[token] for token in tokens] == [
            *("[CLS]", "the", "cat", "[SEP]", "a", "[UNK]", "[SEP]")
        ]
        np.testing.assert_allclose(outputs, expected, atol=1e-5)


def predict(directory):
    """Returns the tokens of a pair, and the pooled output of a padded batch."""
    encoder, model, _ = sources.stored(Path(directory))
    segments = [tf.constant(["The cat", "a"]), tf.constant(["a zebra", "the dog ."])]
    packed = preprocessing.text_to_inputs(
        segments, encoder.vocab_file, Packing(max_seq_length=32)
    )
    inputs = preprocessing.pad_inputs(
        packed["input_word_ids"], packed["input_type_ids"], 16
    )
    outputs = model(inputs, training=False)["pooled_output"].numpy()
    return packed["input_word_ids"].to_list()[0], outputs


@pytest.mark.parametrize(
    ("file", "change", "got"),
    [
        ("vocab.txt", ("bird", "cat"), "the token 'cat'"),
        nightly("vocab.txt", ("[SEP]", "zebra"), r"no \[SEP\]"),
        (
            "config.json",
            ('"initializer_range"', '"hidden_dropout_prob": 1.5, "other"'),
            r"hidden_dropout_prob.* 1\.5",
        ),
    ],
)
def test_what_a_run_refuses_an_import_refuses_too(tmp_path, file, change, got):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    edited = tmp_path / "encoder" / file
    edited.write_text(edited.read_text().replace(*change))
    config = load_config(path)
    with pytest.raises(EncoderError, match=got):
        experiment.check_settings(config.trainer, resolve_encoder(config).directory)
    with pytest.raises(EncoderError, match=got):
        encoder_source.import_encoder(config.encoder.source, tmp_path / "imported")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"recipe.yaml", "encoder", "data"}  # nothing incomplete


def test_checkpoint_that_tensorflow_reads_as_a_pattern_is_refused_and_a_folder_read(
    tmp_path, checkpoint
):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    shutil.copytree(checkpoint, tmp_path / "imported")
    expected = resolve_encoder(load_config(path)).fingerprint
    for name in ("encoder", "imported"):
        (tmp_path / name).rename(tmp_path / f"{name} [v2]")
    location = {"encoder.source": str(tmp_path / "imported [v2]")}
    with refused("E-path-pattern"):
        resolve_encoder(load_config(path, location))
    location = {"encoder.source": str(tmp_path / "encoder [v2]")}
    assert resolve_encoder(load_config(path, location)).fingerprint == expected


@pytest.mark.parametrize(
    ("source", "name", "field", "part"),
    [
        *(
            (handle, "E-network-failed", "got", f"{handle} cannot be downloaded")
            for handle in HANDLES
        ),
        ("http://tfhub.dev/bert/1", "E-settings-refused", "advice", "write https://"),
        ("package:no/model", "E-encoder-not-found", "got", "no is not installed"),
        ("/absent", "E-encoder-not-found", "allowed", "a directory"),
    ],
)
def test_source_that_cannot_be_located_is_refused_by_its_argument(
    tmp_path, no_network, source, name, field, part
):
    patterns = {field: re.compile(part)}
    path = tiny.write_config(tmp_path / "recipe.yaml")
    with refused(name, setting="encoder.source", **patterns):
        resolve_encoder(load_config(path, {"encoder.source": source}))
    with refused(name, setting="source", **patterns):
        encoder_source.import_encoder(source, tmp_path / "imported")
    with refused(name, setting="preprocessor", **patterns):
        encoder = str(tmp_path / "encoder")
        encoder_source.import_encoder(encoder, tmp_path / "imported", source)


def test_downloads_are_kept_in_the_users_own_directory(
    tmp_path, no_network, monkeypatch
):
    monkeypatch.delenv("TFHUB_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    shared = Path(tempfile.gettempdir()) / "tfhub_modules"
    key = hashlib.sha1(HANDLES[0].encode()).hexdigest()
    user_cache = tmp_path / "home" / "tfhub_modules"
    sources.write_saved_model(user_cache / key)
    assert encoder_source.locate(HANDLES[0], "SOURCE") == str(user_cache / key)
    with refused("E-network-failed"):
        encoder_source.locate(HANDLES[1], "SOURCE")
    assert os.environ["TFHUB_CACHE_DIR"] != str(shared)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    monkeypatch.delenv("TFHUB_CACHE_DIR")
    with refused("E-network-failed"):
        encoder_source.locate(HANDLES[0], "SOURCE")
    created = tmp_path / "elsewhere" / ".cache" / "tfhub_modules"
    assert created.stat().st_mode & 0o777 == 0o700


def cached(tmp_path, handle):
    """Returns the directory of a handle in the cache of downloads."""
    return tmp_path / "cache" / hashlib.sha1(handle.encode()).hexdigest()


def test_handle_that_was_downloaded_is_read_from_the_cache_without_a_network(
    tmp_path, no_network
):
    config = saved_model_config(tmp_path)
    expected = resolve_encoder(config)
    shutil.copytree(tmp_path / "encoder", cached(tmp_path, HANDLES[0]))
    path = tmp_path / "recipe.yaml"
    encoder = resolve_encoder(load_config(path, {"encoder.source": HANDLES[0]}))
    assert encoder == expected


# Of the tutorial "Fine-tuning a BERT model".
TUTORIAL_ENCODER = (
    "https://tfhub.dev/tensorflow/small_bert/bert_en_uncased_L-2_H-128_A-2/2"
)
TUTORIAL_PREPROCESSOR = "https://tfhub.dev/tensorflow/bert_en_uncased_preprocess/3"


@pytest.mark.nightly
def test_tutorials_handle_is_read_from_the_cache_without_a_network(
    tmp_path, no_network
):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    sources.write_saved_model(cached(tmp_path, TUTORIAL_ENCODER), with_mlm=True)
    config = load_config(path, {"encoder.source": TUTORIAL_ENCODER})
    directory = resolve_encoder(config).directory
    encoder, model, _ = sources.stored(Path(directory))
    assert Path(encoder.vocab_file).read_text().split("\n")[:-1] == tiny.VOCAB
    assert encoder.config["do_lower_case"] is True
    _, original, _ = sources.stored(tmp_path / "encoder")
    sources.assert_same_weights(model, original)


@pytest.mark.nightly
@pytest.mark.parametrize("location", ["--preprocessor", "preprocess"])
def test_tutorials_handle_without_a_vocabulary_takes_its_preprocessors(
    tmp_path, no_network, location
):
    path = tiny.write_config(tmp_path / "recipe.yaml")
    encoder = sources.write_saved_model(cached(tmp_path, TUTORIAL_ENCODER))
    shutil.rmtree(encoder / "assets")
    config = load_config(path, {"encoder.source": TUTORIAL_ENCODER})
    got = re.compile(rf"\(the encoder is {TUTORIAL_ENCODER}\)")
    with refused("E-encoder-not-found", got=got) as caught:
        resolve_encoder(config)
    assert "preprocessor" in str(caught.value)
    if location == "preprocess":
        sources.write_preprocessor(encoder / location)
    else:
        sources.write_preprocessor(cached(tmp_path, TUTORIAL_PREPROCESSOR))
        imported = tmp_path / "imported"
        encoder_source.import_encoder(TUTORIAL_ENCODER, imported, TUTORIAL_PREPROCESSOR)
        config = load_config(path, {"encoder.source": str(imported)})
    vocab_file = resolve_encoder(config).vocab_file
    assert Path(vocab_file).read_text().split("\n")[:-1] == tiny.VOCAB


def test_remote_destination_is_refused(tmp_path):
    source = tiny.write_encoder(tmp_path / "source")
    with refused("E-local-path-required", setting="destination"):
        encoder_source.import_encoder(str(source), "gs://bucket/encoder")
