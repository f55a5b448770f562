"""Signatures run once before clients run them, and a version that fails is refused."""

import logging

import pytest
import tensorflow as tf

from serving import server
from serving.models import Model
from tests.serving import models


class Broken(tf.Module):
    """Fails for every row, in one signature or in both."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def fail(self, text):
        with tf.control_dependencies([tf.debugging.Assert(tf.size(text) > 9, [text])]):
            return {"text": tf.identity(text)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def echo(self, text):
        return {"text": text}


def save(directory, **signatures):
    model = Broken()
    functions = {name: getattr(model, each) for name, each in signatures.items()}
    tf.saved_model.save(model, str(directory), signatures=functions)
    return directory


@pytest.mark.parametrize("kind", ["pairs", "tokens of sentences"])
def test_every_signature_of_an_exported_model_is_run(export, kind, caplog, capfd):
    caplog.set_level(logging.INFO, "serving")
    directory = export(kind).directory
    capfd.readouterr()
    server._load(directory, 1)
    assert not [record for record in caplog.records if record.name.startswith("serv")]
    assert "OP_REQUIRES failed" not in capfd.readouterr().err


def test_parser_of_examples_is_run(tmp_path):
    directory = models.save_half_plus_three(tmp_path / "1")
    assert Model(directory, 1).warm_up() == {}


def test_version_of_which_no_signature_runs_is_not_loaded(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "serving")  # another test's level may be set
    directory = save(tmp_path / "1", serving_default="fail")
    with pytest.raises(RuntimeError, match="no signature of version 1 can be run"):
        server._load(directory, 1)
    (record,) = [each for each in caplog.records if each.name == server.__name__]
    assert record.levelname == "WARNING"
    assert "signature serving_default fails: " in record.getMessage()


def test_version_of_which_a_signature_runs_is_loaded(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "serving")
    directory = save(tmp_path / "1", serving_default="echo", other="fail")
    assert server._load(directory, 1).version == 1
    assert "version 1: signature other fails" in caplog.text
