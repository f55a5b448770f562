"""Encoders as TF Hub and Kaggle publish them; nightly, as the Model Garden exports."""

import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text as tf_text
import tf_keras
from official.nlp.modeling import networks
from tensorflow.core.protobuf import saved_model_pb2
from tf_keras.src.saving.legacy.saved_model import utils as keras_saving

from modules.data import tokenizer_files
from modules.encoder import conversion, saved_model
from tests import tiny
from tests.modules.encoder import sources
from tests.nightly import nightly

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A SavedModel with its masked language model, as TF Hub has them."""
    root = tmp_path_factory.mktemp("published")
    encoder, original, _ = sources.stored(tiny.write_encoder(root / "encoder"))
    model = sources.build_upstream(encoder, dropout=0.0)
    model.set_weights(original.get_weights())
    head = [tf.Variable([1.0], name=f"bert/{name}") for name in HEAD]
    mlm = tf.__internal__.tracking.AutoTrackable()
    mlm.variables = [*model.variables, *head]
    lower_case = tf.Variable(True, trainable=False)
    return save(root / "hub", model, do_lower_case=lower_case, mlm=mlm)


HEAD = [
    "cls/predictions/output_bias/bias",
    "cls/predictions/transform/LayerNorm/beta",
    "cls/predictions/transform/LayerNorm/gamma",
    "cls/predictions/transform/dense/bias",
    "cls/predictions/transform/dense/kernel",
]


@pytest.fixture(scope="module")
def saved_plain(tmp_path_factory):
    """A SavedModel of random weights, an unusual epsilon, and a writing initializer."""
    root = tmp_path_factory.mktemp("plain")
    model = bert()
    for layer in model.submodules:
        if isinstance(layer, tf_keras.layers.LayerNormalization):
            layer.epsilon = 1e-3
    random = np.random.default_rng(0)
    model.set_weights([random.normal(size=w.shape) for w in model.get_weights()])
    return save(root / "hub", model, resource=WritingInitializer(root / "written"))


@pytest.fixture
def plain(saved_plain, tmp_path):
    """A SavedModel of an encoder alone, without a variable `do_lower_case`."""
    shutil.copytree(saved_plain, tmp_path / "plain")
    return tmp_path / "plain"


@pytest.fixture
def hub(published, tmp_path):
    shutil.copytree(published, tmp_path / "hub")
    return tmp_path / "hub"


def convert(source, destination, preprocessor=None):
    destination.mkdir()
    preprocessor = None if preprocessor is None else str(preprocessor)
    return conversion.convert(str(source), str(destination), preprocessor)


def call(directory):
    """Returns a function that calls a SavedModel like the encoder."""
    loaded = tf.saved_model.load(str(directory))
    if callable(loaded):
        return lambda inputs, training: loaded(inputs, training=training)
    return lambda inputs, training: loaded.signatures["serving_default"](**inputs)


def test_every_variable_is_restored_and_outputs_are_equal(hub, tmp_path):
    imported = convert(hub, tmp_path / "imported")
    encoder, model, _ = sources.stored(tmp_path / "imported")
    assert {key: encoder.config[key] for key in tiny.CONFIG} == tiny.CONFIG
    assert encoder.config["layer_norm_eps"] == 1e-12
    assert imported.parameters == 6304
    assert imported.left_out == [f"bert/{name}" for name in HEAD]
    _, original, _ = sources.stored(tiny.write_encoder(tmp_path / "original"))
    sources.assert_same_weights(model, original)
    sources.assert_same_outputs(model, call(hub))


@pytest.mark.nightly
@pytest.mark.parametrize(("with_mlm", "activation"), [(True, "gelu"), (False, "relu")])
def test_export_of_the_model_gardens_tool_is_read(tmp_path, with_mlm, activation):
    hub = sources.write_saved_model(
        tmp_path / "hub", with_mlm=with_mlm, hidden_act=activation
    )
    imported = convert(hub, tmp_path / "imported")
    assert imported.left_out == [f"bert/{name}" for name in HEAD if with_mlm]
    assert imported.encoder.config["hidden_act"] == activation
    _, model, _ = sources.stored(tmp_path / "imported")
    sources.assert_same_outputs(model, call(hub))


def test_old_layout_is_refused_with_the_version_to_take(tmp_path):
    """The variables have the names of version 2."""
    model = bert()
    for variable in model.variables:
        variable._handle_name = variable.name.replace(
            "self_attention/attention_output/", "self_attention_output/"
        )
    source = save_variables(tmp_path / "hub", model)
    advice = re.compile("version 4 of the same handle")
    got = r"the variable \S+/self_attention_output/\w+ of an old layout"
    with sources.refused("not-supported", source, got, advice=advice):
        convert(source, tmp_path / "imported")


@pytest.mark.nightly
@pytest.mark.parametrize("location", ["elsewhere", "preprocess", "preprocessor"])
def test_vocabulary_may_be_its_preprocessors(hub, tmp_path, location):
    (hub / "assets" / "vocab.txt").unlink()
    is_named = location == "elsewhere"
    directory = (tmp_path if is_named else hub) / location
    sources.write_preprocessor(directory)
    preprocessor = str(directory) if is_named else None
    vocabulary = saved_model.find_vocabulary(str(hub), preprocessor)
    assert vocabulary == str(directory / "assets" / "vocab.txt")
    with open(vocabulary) as lines:
        assert lines.read().split("\n")[:-1] == tiny.VOCAB


def test_encoder_without_a_vocabulary_is_refused_with_the_option_for_it(hub, tmp_path):
    (hub / "assets" / "vocab.txt").unlink()
    advice = re.compile("`import-encoder` with `preprocessor`")
    with sources.refused("not-found", hub, "no vocabulary", advice=advice):
        convert(hub, tmp_path / "imported")


def test_several_vocabularies_are_refused(hub):
    for name in ("a.txt", "b.txt"):
        shutil.copy(hub / "assets" / "vocab.txt", hub / "assets" / name)
    (hub / "assets" / "vocab.txt").unlink()
    with sources.refused("not-found", hub / "assets", r"a\.txt, b\.txt"):
        saved_model.find_vocabulary(str(hub))


def test_incomplete_vocabulary_is_refused(hub):
    path = hub / "assets" / "vocab.txt"
    path.write_text("\n".join(tiny.VOCAB[:-1]))
    with sources.refused("file-damaged", path, "30 tokens; .* vocab_size is 31"):
        convert(hub, hub.parent / "imported")


def test_vocabulary_of_another_encoder_is_refused(hub, tmp_path):
    with open(hub / "assets" / "vocab.txt", "a") as file:
        file.write("more\n")
    path = hub / "assets" / "vocab.txt"
    with sources.refused("file-damaged", path, "32 tokens; .* vocab_size is 31"):
        convert(hub, tmp_path / "imported")


@pytest.mark.nightly
def test_preprocessor_instead_of_an_encoder_is_refused(tmp_path):
    source = sources.write_preprocessor(tmp_path / "preprocessor")
    advice = "name the encoder; `preprocessor` takes a preprocessor"
    with sources.refused("not-found", source, "word_embeddings", advice=advice):
        convert(source, tmp_path / "imported")


def save(directory, model, **attributes):
    """Exports an encoder like Keras, but without a function for every layer."""
    inputs = {tensor.name: tensor for tensor in model.inputs}
    core = tf_keras.Model(inputs=inputs, outputs=model(inputs))
    root = tf.__internal__.tracking.AutoTrackable()
    root.variables = core.variables  # as Keras lists them
    for name, value in {**attributes, "core": core}.items():
        setattr(root, name, value)
    specs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in inputs}
    names = ("sequence_output", "pooled_output")
    signature = tf.function(
        lambda **inputs: {name: core(inputs)[name] for name in names}, autograph=False
    ).get_concrete_function(**specs)
    with keras_saving.keras_option_scope(save_traces=False):
        tf.saved_model.save(root, str(directory), signature)
    return write_vocabulary(directory)


def save_variables(directory, model):
    """Exports the variables of an encoder, without its graph."""
    root = tf.__internal__.tracking.AutoTrackable()
    root.variables = model.variables
    tf.saved_model.save(root, str(directory))
    return write_vocabulary(directory)


def write_vocabulary(directory):
    (directory / "assets").mkdir(parents=True, exist_ok=True)
    (directory / "assets" / "vocab.txt").write_text("\n".join(tiny.VOCAB) + "\n")
    return directory


SIZE = {
    "vocab_size": len(tiny.VOCAB),
    "hidden_size": 16,
    "num_layers": 2,
    "num_attention_heads": 2,
    "max_sequence_length": 64,
    "dict_outputs": True,
}


def bert(**changes):
    return networks.BertEncoder(**SIZE, type_vocab_size=2, inner_dim=32, **changes)


def test_albert_is_refused_with_the_handles_that_are_read(tmp_path):
    model = networks.AlbertEncoder(**SIZE, embedding_width=8, intermediate_size=32)
    source = save_variables(tmp_path / "albert", model)
    got, advice = "no variable transformer/layer_0/", re.compile(r"tensorflow/bert_\*")
    with sources.refused("not-found", source, got, advice=advice):
        convert(source, tmp_path / "imported")


def test_same_variables_of_another_architecture_are_refused(tmp_path):
    model = bert(norm_first=True)
    for variable in model.variables:
        variable.assign(np.random.default_rng(0).normal(size=variable.shape))
    source = save(tmp_path / "norm_first", model)
    with sources.refused("not-supported", source, "normalizes before the attention"):
        convert(source, tmp_path / "imported")


def test_another_activation_of_the_same_variables_is_refused(tmp_path):
    source = save(tmp_path / "swish", bert(inner_activation="swish"))
    with sources.refused("not-supported", source, "no op of its activation"):
        convert(source, tmp_path / "imported")


def test_epsilon_is_read_from_the_graph(plain, tmp_path):
    imported = convert(plain, tmp_path / "imported")
    assert imported.encoder.config["layer_norm_eps"] == 1e-3
    _, restored, _ = sources.stored(tmp_path / "imported")
    sources.assert_same_outputs(restored, call(plain), atol=1e-4)


def test_graph_without_an_epsilon_is_refused(plain, tmp_path):
    path = plain / "saved_model.pb"
    graph = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for function in graph.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            node.name = node.name.replace("layer_norm/batchnorm", "norm/batchnorm")
    path.write_bytes(graph.SerializeToString())
    with sources.refused("not-supported", path, "no epsilon of a layer normalization"):
        convert(plain, tmp_path / "imported")


class WritingInitializer(tf.saved_model.experimental.TrackableResource):
    """A resource whose initializer writes a file whenever its SavedModel is loaded."""

    def __init__(self, path):
        super().__init__()
        self._path = str(path)
        self.handle = self._create_resource()

    def _create_resource(self):
        return tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name="w")

    @tf.function(input_signature=[])
    def _initialize(self):
        tf.io.write_file(self._path, "written")


def test_import_runs_nothing_of_a_saved_model(saved_plain, tmp_path):
    written = saved_plain.parent / "written"
    tf.saved_model.load(str(saved_plain))
    assert written.exists()
    written.unlink()
    convert(saved_plain, tmp_path / "imported")
    assert not written.exists()


def test_refusal_of_another_saved_model_runs_nothing_of_it(tmp_path):
    written = tmp_path / "written"
    module = tf.Module()
    module.resource = WritingInitializer(written)
    tf.saved_model.save(module, str(tmp_path / "hub"))
    source = write_vocabulary(tmp_path / "hub")
    tf.saved_model.load(str(source))
    assert written.exists()
    written.unlink()
    with sources.refused("not-found", source, "no variable word_embeddings"):
        convert(source, tmp_path / "imported")
    assert not written.exists()


def with_capital(vocab_file):
    """Makes the words of a vocabulary look cased."""
    vocab_file.write_text(vocab_file.read_text().replace("cat\n", "Cat\n"))


def test_variable_do_lower_case_decides(hub, tmp_path):
    with_capital(hub / "assets" / "vocab.txt")
    encoder = convert(hub, tmp_path / "imported").encoder
    assert encoder.config["do_lower_case"] is True
    assert tokenizer_files.read_tokenizer(encoder.vocab_file).settings.do_lower_case


def write_tokenizer(directory):
    """Exports the tokenizer of a preprocessor alone."""
    directory.mkdir()
    (directory / "vocab.txt").write_text("\n".join(tiny.VOCAB) + "\n")
    tokenizer = tf_text.BertTokenizer(str(directory / "vocab.txt"), lower_case=True)
    module = tf.Module()
    module.tokenizer = tokenizer
    module.tokenize = tf.function(
        lambda text: tokenizer.tokenize(text).to_tensor(),
        autograph=False,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(directory / "saved"))
    return directory / "saved"


@pytest.mark.parametrize(
    "write", [write_tokenizer, nightly(sources.write_preprocessor)]
)
def test_preprocessor_that_lowercases_decides(plain, tmp_path, write):
    (plain / "assets" / "vocab.txt").unlink()
    preprocessor = write(tmp_path / "preprocessor")
    with_capital(preprocessor / "assets" / "vocab.txt")
    encoder = convert(plain, tmp_path / "imported", preprocessor).encoder
    assert encoder.config["do_lower_case"] is True


def test_saved_model_of_tensorflow_1_is_refused(tmp_path):
    graph = saved_model_pb2.SavedModel()
    graph.meta_graphs.add()
    source = write_vocabulary(tmp_path / "hub")
    (source / "saved_model.pb").write_bytes(graph.SerializeToString())
    advice = re.compile(r"tensorflow/small_bert/\* \(version 1 or 2\)")
    with sources.refused("not-supported", source, "TensorFlow 1,", advice=advice):
        convert(source, tmp_path / "imported")


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("saved_model.pb", "saved_model.pb"),
        ("variables/variables.index", "variables/variables"),
        ("variables/variables.data-00000-of-00001", "variables/variables"),
    ],
)
def test_damaged_file_is_named(hub, tmp_path, file, path):
    content = (hub / file).read_bytes()
    (hub / file).write_bytes(content[: len(content) // 2])
    with sources.refused("file-damaged", hub / path, "not a readable"):
        convert(hub, tmp_path / "imported")
