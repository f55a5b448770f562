"""The exported model, moved, and with its training data deleted."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from contracts.versions import exported_model
from tests import exported as exported_lib
from tests import tiny
from tests.exported import PAIRS
from tests.nightly import nightly

pytestmark = pytest.mark.slow

NIGHTLY = ("sentences", "scores", "a curated schema", "labels", "tokens of pairs")


def kinds(*names):
    """Returns kinds of task as parameters; an export takes 10 s."""
    return [nightly(name) if name in NIGHTLY else name for name in names]


@dataclasses.dataclass
class Loaded:
    """A model of a kind of task, exported, moved and loaded again."""

    exported: exported_lib.Exported
    model: Any
    vocab_file: str

    @property
    def task(self):
        return self.exported.task

    def cut(self, pairs):
        """Returns the texts of a row that the task takes."""
        return [pair[: len(self.task.text_columns)] for pair in pairs]

    def serve(self, pairs):
        columns = zip(*self.cut(pairs), strict=True)
        return self.model.signatures["serving_default"](
            **{
                name: tf.constant(texts)
                for name, texts in zip(self.task.text_columns, columns, strict=True)
            }
        )

    def examples(self, pairs):
        rows = exported_lib.rows_of(
            self.task, self.cut(pairs), vocab_file=self.vocab_file
        )
        return tf.constant([exported_lib.serialize(row) for row in rows])

    def values(self, outputs):
        return outputs["score" if self.task.classes is None else "logits"].numpy()


@pytest.fixture(scope="module")
def load(export, vocab_file):
    """Loads an exported model of a kind, once."""
    made = {}

    def load(kind):
        if kind not in made:
            exported = export(kind)
            model = tf.saved_model.load(str(exported.directory))
            made[kind] = Loaded(exported, model, vocab_file)
        return made[kind]

    return load


@pytest.fixture(params=kinds(*exported_lib.TASKS))
def loaded(load, request):
    """A model of each kind of task."""
    return load(request.param)


@pytest.fixture
def pair_model(load):
    """A model of text pairs and three classes."""
    return load("pairs")


@pytest.mark.parametrize("kind", kinds("pairs", "sentences", "tokens of pairs"))
def test_classes_come_with_names_types_and_shapes_of_the_task(load, kind):
    loaded = load(kind)
    outputs = loaded.serve(PAIRS)
    assert outputs["logits"].dtype == tf.float32
    assert outputs["logits"].shape == (4, loaded.task.outputs)
    assert outputs["class_id"].dtype == tf.int64
    # The temperature divides the logits of the probabilities alone.
    logits = loaded.exported.logits
    np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
    scaled = tf.nn.softmax(logits / loaded.model.temperature)
    assert loaded.model.temperature == exported_lib.TEMPERATURE
    np.testing.assert_allclose(outputs["probabilities"], scaled, atol=1e-6)
    np.testing.assert_allclose(tf.reduce_sum(outputs["probabilities"], 1), 1, atol=1e-5)
    ids = tf.argmax(outputs["logits"], axis=-1).numpy()
    assert outputs["class_id"].numpy().tolist() == ids.tolist()
    names = [loaded.task.classes[i].encode() for i in ids]
    assert outputs["class"].numpy().tolist() == names


def test_class_of_two_is_decided_by_the_threshold(tmp_path):
    exported = exported_lib.export_tiny(tmp_path, "sentences", threshold=0.3)
    model = tf.saved_model.load(str(exported.directory))
    assert model.threshold.numpy() == pytest.approx(0.3)
    described = exported_model.read_description(str(exported.directory))
    assert described["threshold"] == 0.3
    texts = {"sentence": tf.constant([first for first, _ in PAIRS])}
    outputs = model(texts)
    positive = outputs["probabilities"].numpy()[:, 1]
    expected = [int(value >= 0.3) for value in positive]
    assert outputs["class_id"].numpy().tolist() == expected
    assert expected != outputs["probabilities"].numpy().argmax(axis=1).tolist()
    names = [exported.task.classes[index].encode() for index in expected]
    assert outputs["class"].numpy().tolist() == names
    # Above 1, the class is never predicted, even if its probability is exactly 1.
    above = np.nextafter(np.float32(1), np.float32(2))
    for temperature in (1e-9, -1e-9):  # makes one of both certain
        model.temperature.assign(temperature)
        model.threshold.assign(above)
        outputs = model(texts)
        assert outputs["probabilities"].numpy().max() == 1
        assert not outputs["class_id"].numpy().any()
        model.threshold.assign(0.0)
        assert model(texts)["class_id"].numpy().all()


def test_each_label_of_several_is_decided_by_its_threshold(tmp_path):
    thresholds = [0.3, 0.5, 0.7]
    exported = exported_lib.export_tiny(tmp_path, "labels", threshold=thresholds)
    model = tf.saved_model.load(str(exported.directory))
    np.testing.assert_allclose(model.threshold.numpy(), thresholds)
    outputs = model({"sentence": tf.constant([first for first, _ in PAIRS])})
    assert set(outputs) == {"logits", "probabilities", "labels"}
    assert outputs["labels"].dtype == tf.int64
    probabilities = outputs["probabilities"].numpy()
    np.testing.assert_allclose(probabilities, exported.probabilities, atol=1e-5)
    labels = (probabilities >= thresholds).astype(int)
    assert outputs["labels"].numpy().tolist() == labels.tolist()
    described = exported_model.read_description(str(exported.directory))
    assert {key: described[key] for key in ("kind", "threshold", "separator")} == {
        "kind": "multilabel",
        "threshold": thresholds,
        "separator": "|",
    }


@pytest.mark.parametrize("kind", kinds("scores", "tokens of sentences"))
def test_regression_has_one_score_a_row_and_no_other_output(load, kind):
    outputs = load(kind).serve(PAIRS)
    assert set(outputs) == {"score"}
    assert outputs["score"].dtype == tf.float32
    assert outputs["score"].shape == (4,)


def test_moved_model_is_callable_with_lists_of_texts_by_column(loaded):
    """As the Model Garden's tutorials call it: reloaded(examples)["logits"]."""
    texts = zip(*loaded.cut(PAIRS), strict=True)
    columns = dict(zip(loaded.task.text_columns, map(list, texts), strict=True))
    expected = loaded.serve(PAIRS)
    tensors = {name: tf.constant(column) for name, column in columns.items()}
    for actual in (loaded.model(columns), loaded.model(tensors)):
        assert set(actual) == set(expected)
        for name, values in expected.items():
            np.testing.assert_array_equal(actual[name], values)


def test_moved_model_equals_the_training_time_forward_pass(loaded):
    actual = loaded.values(loaded.serve(PAIRS))
    expected = loaded.exported.logits
    np.testing.assert_allclose(actual.reshape(expected.shape), expected, atol=1e-5)


def test_raw_text_and_examples_have_equal_outputs(loaded):
    """Examples may hold tokens that another tool made."""
    actual = loaded.model.signatures["serve_examples"](examples=loaded.examples(PAIRS))
    expected = loaded.serve(PAIRS)
    assert set(actual) == set(expected)
    np.testing.assert_allclose(
        loaded.values(actual), loaded.values(expected), atol=1e-6
    )


@pytest.mark.parametrize("kind", kinds("pairs", "tokens of pairs"))
def test_texts_keep_the_order_of_the_task(load, kind):
    loaded = load(kind)
    assert loaded.model.text_columns().numpy().tolist() == [b"question", b"answer"]
    inputs = loaded.model.signatures["transform_features"](
        examples=loaded.examples([("the cat", "a")])
    )
    tokens = [tiny.VOCAB[i] for i in inputs["input_word_ids"].numpy()[0]]
    assert tokens == ["[CLS]", "the", "cat", "[SEP]", "a", "[SEP]"]
    assert inputs["input_type_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1]]


@pytest.mark.parametrize("kind", kinds("sentences", "tokens of sentences"))
def test_single_sentence_is_cut_at_its_end(load, kind):
    loaded = load(kind)
    assert loaded.model.text_columns().numpy().tolist() == [b"sentence"]
    inputs = loaded.model.signatures["transform_features"](
        examples=loaded.examples([("the " * 22 + "cat cat", "")])
    )
    tokens = [tiny.VOCAB[i] for i in inputs["input_word_ids"].numpy()[0]]
    assert tokens == ["[CLS]", *["the"] * 22, "[SEP]"]


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 200])
def test_each_row_has_its_own_outputs_in_a_batch_of_any_size(pair_model, rows):
    pairs = [PAIRS[i % len(PAIRS)] for i in range(rows)]
    actual = pair_model.serve(pairs)["logits"].numpy()
    expected = pair_model.serve(PAIRS)["logits"].numpy()
    for index in range(rows):
        np.testing.assert_allclose(actual[index], expected[index % 4], atol=1e-5)


def located(loaded, *rows):
    """Returns the outputs of `tokenize` as lists, for rows of a text per column."""
    columns = zip(loaded.task.text_columns, zip(*rows, strict=True), strict=True)
    outputs = loaded.model.signatures["tokenize"](
        **{name: tf.constant(texts) for name, texts in columns}
    )
    return {name: tensor.numpy().tolist() for name, tensor in outputs.items()}


def test_tokens_are_those_that_the_model_sees(loaded):
    rows = loaded.cut([*PAIRS, ("The Zebra sees catsing Ünïcödé!", "DÖG")])
    tokens = located(loaded, *rows)["token"]
    inputs = loaded.model.signatures["transform_features"](
        examples=loaded.examples(rows)
    )
    ids = inputs["input_word_ids"].numpy().tolist()
    padding = tiny.VOCAB[0]
    assert [[token.decode() or padding for token in row] for row in tokens] == [
        [tiny.VOCAB[i] for i in row] for row in ids
    ]


def test_tokens_have_their_column_and_their_bytes_in_the_text(pair_model):
    texts = ("Ä döG Zebra", "cats")
    (row,) = zip(*located(pair_model, texts).values(), strict=True)
    outputs = dict(zip(located(pair_model, texts), row, strict=True))
    spans = [
        (token.decode(), texts[column].encode()[start:end].decode())
        for token, column, start, end in zip(
            *(outputs[name] for name in ("token", "column", "start", "end")),
            strict=True,
        )
        if column >= 0
    ]
    assert spans == [
        *[("a", "Ä"), ("dog", "döG"), ("[UNK]", "Zebra"), ("cat", "cat"), ("##s", "s")]
    ]
    assert outputs["column"] == [-1, 0, 0, 0, -1, 1, 1, -1]
    assert outputs["cut"] == [0, 0]


def test_cut_tokens_are_counted_by_column(pair_model):
    rows = [("the " * 40, "a " * 30), ("the " * 40, "a"), ("", "")]
    assert located(pair_model, *rows)["cut"] == [[29, 20], [20, 0], [0, 0]]


def test_empty_batch_has_empty_outputs(loaded):
    empty = tf.constant([], tf.string)
    outputs = [
        loaded.model.signatures["serving_default"](
            **dict.fromkeys(loaded.task.text_columns, empty)
        ),
        loaded.model.signatures["serve_examples"](examples=empty),
        loaded.model.signatures["tokenize"](
            **dict.fromkeys(loaded.task.text_columns, empty)
        ),
    ]
    for actual in outputs:
        assert {len(tensor) for tensor in actual.values()} == {0}
    for actual in outputs[:2]:
        if loaded.task.classes is not None:
            assert actual["logits"].shape == (0, loaded.task.outputs)


def test_text_that_is_long_or_not_utf_8_has_finite_outputs(loaded):
    columns = ([b"cat " * 100_000, b"\xff\xfe\x00\x80"], [b"\xc3", "中文 \U0001f600"])
    outputs = loaded.model.signatures["serving_default"](
        **{
            name: tf.constant(texts)
            for name, texts in zip(loaded.task.text_columns, columns, strict=False)
        }
    )
    assert np.isfinite(loaded.values(outputs)).all()


@pytest.mark.parametrize("signature", ["serve_examples", "transform_features"])
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_ids", -1, "input_ids must be 0 to 30"),
        ("input_ids", len(tiny.VOCAB), "input_ids must be 0 to 30"),
        ("segment_ids", 2, "segment_ids must be 0 to 1"),
        ("segment_ids", -1, "segment_ids must be 0 to 1"),
    ],
)
def test_token_ids_out_of_range_are_an_invalid_argument(
    load, signature, name, value, message
):
    loaded = load("tokens of sentences")
    (row,) = exported_lib.rows_of(
        loaded.task, [("the cat",)], vocab_file=loaded.vocab_file
    )
    row[name][1] = value
    serve = loaded.model.signatures[signature]
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        serve(examples=tf.constant([exported_lib.serialize(row)]))


def test_slices_are_by_length_of_the_pair_and_word_overlap(pair_model):
    pairs = [
        ("the cat", "the cat"),
        ("the cat sees", "a dog likes"),
        ("word " * 30, "other " * 30),
        ("a b c d", "A, B! e f g"),
    ]
    slices = pair_model.model.signatures["slice_features"](
        examples=pair_model.examples(pairs)
    )
    lengths = [b"0-19", b"0-19", b"60+", b"0-19"]
    assert slices["pair_length"].numpy().tolist() == lengths
    overlaps = [b"75+", b"0-24", b"0-24", b"25-49"]
    assert slices["word_overlap"].numpy().tolist() == overlaps


@pytest.mark.parametrize(
    ("kind", "name", "buckets"),
    [
        nightly("sentences", "sentence_length", [b"0-9", b"10-19", b"30+"]),
        # Tokenized examples are cut already, here to 24 tokens.
        # The label is called `token_length`.
        ("tokens of sentences", "model_token_length", [b"0-31", b"0-31", b"0-31"]),
    ],
)
def test_slices_of_single_texts_and_tokens_are_by_length(load, kind, name, buckets):
    loaded = load(kind)
    texts = [("the cat", ""), ("the " * 11, ""), ("the " * 30, "")]
    slices = loaded.model.signatures["slice_features"](examples=loaded.examples(texts))
    assert set(slices) == {name}
    assert slices[name].numpy().tolist() == buckets


def test_tables_of_the_tokenizer_are_in_the_file_once(loaded):
    content = (loaded.exported.directory / "saved_model.pb").read_bytes()
    (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
    library = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(n for f in library for n in f.node_def)]
    tables = [n for n in nodes if n.op == "Const" and n.ByteSize() > 100_000]
    assert len(tables) == 2  # the normalizer's and the vocabulary's


@pytest.mark.parametrize("signature", ["serving_default", "serve_examples", "tokenize"])
def test_graph_needs_only_two_old_ops_of_tensorflow_text(loaded, signature):
    """Older TF Serving images lack newer ones, such as that of RoundRobinTrimmer."""
    graph = loaded.model.signatures[signature].graph.as_graph_def()
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    core = {name for name in dir(tf.raw_ops) if not name.startswith("_")}
    foreign = {node.op for node in nodes} - core
    defined = {function.signature.name for function in graph.library.function}
    tokenizer = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
    is_split = loaded.task.is_tokenized and signature == "serve_examples"
    assert foreign - defined == (set() if is_split else tokenizer)
