"""The warm-up runs every signature; a version that fails is not loaded."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from serving.saved_models import models
from serving.saved_models.models import Model
from tests.nightly import nightly

pytestmark = pytest.mark.slow


class Broken(tf.Module):
    """Fails on every row, on the row of the warm-up, or never."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def lack(self, text):
        return {"text": text + tf.io.read_file("/missing/vocabulary")}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def check(self, text):
        is_filled = tf.reduce_all(tf.strings.length(text) > 0)
        with tf.control_dependencies([tf.debugging.Assert(is_filled, [text])]):
            return {"text": tf.identity(text)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def echo(self, text):
        return {"text": text}


def save(directory, **signatures):
    model = Broken()
    functions = {name: getattr(model, method) for name, method in signatures.items()}
    tf.saved_model.save(model, str(directory), signatures=functions)
    return directory


@pytest.fixture
def runs(monkeypatch):
    """The names of the signatures that were run."""
    names, run = [], Model.run

    def record(model, name, inputs):
        names.append(name)
        return run(model, name, inputs)

    monkeypatch.setattr(Model, "run", record)
    return names


@pytest.mark.parametrize("kind", ["pairs", nightly("tokens of sentences")])
def test_every_signature_of_an_exported_model_is_run(
    saved_pairs, export, kind, capfd, runs
):
    with saved_pairs.versions.use("pairs") as loaded:  # a new one takes seconds
        model = loaded if kind == "pairs" else Model(export(kind).directory, 1)
    capfd.readouterr()
    assert model.warm_up() == {}
    assert sorted(runs) == sorted(model.signatures)
    assert "OP_REQUIRES failed" not in capfd.readouterr().err


def test_signature_that_parses_examples_is_run(root, runs):
    model = Model(root / "1", 1)
    assert model.warm_up() == {}
    assert set(runs) == model.signatures.keys()


def test_version_whose_signatures_all_fail_is_not_loaded(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "serving")
    directory = save(tmp_path / "1", serving_default="lack")
    with pytest.raises(RuntimeError, match="every signature of version 1 fails"):
        models.load(directory, 1)
    (record,) = [record for record in caplog.records if record.name == models.__name__]
    assert record.levelname == "WARNING"
    assert "signature serving_default fails: " in record.getMessage()


def test_version_that_refuses_only_the_row_of_the_warm_up_is_loaded(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "serving")
    model = models.load(save(tmp_path / "1", serving_default="check"), 1)
    assert "version 1: signature serving_default fails: " in caplog.text
    row = {"text": np.array([b"a"], object)}
    assert model.run("serving_default", row)["text"] == [b"a"]


def test_only_the_signature_that_python_cannot_call_fails(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], "x")
        signatures = {
            name: v1.saved_model.predict_signature_def({argument: x}, {"y": x + 1})
            for name, argument in (("serving_default", "x"), ("other", "self"))
        }
        builder = v1.saved_model.Builder(str(tmp_path / "1"))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    problems = Model(tmp_path / "1", 1).warm_up()
    assert problems.keys() == {"other"}
    assert isinstance(problems["other"], TypeError)


def test_version_with_a_working_signature_is_loaded(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "serving")
    directory = save(tmp_path / "1", serving_default="echo", other="lack")
    assert models.load(directory, 1).version == 1
    assert "version 1: signature other fails" in caplog.text
