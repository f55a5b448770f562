"""The shipped model, alone: its directory moved and its training data gone."""

import shutil

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import schema_utils

from modules import encoder as encoder_lib
from modules import environment, export, inputs, preprocessing
from modules.task import PairClassificationTask
from pipeline.schema import build_schema
from pipeline.task import TaskConfig
from tests import tiny

# Not in alphabetic order: a signature sorts its arguments, the task does not.
TASK = TaskConfig(text_columns=["question", "answer"], classes=["no", "maybe", "yes"])
MAX_SEQ_LENGTH = 24
RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
PAIRS = [
    ("The cat sees the tree.", "A dog likes a road!"),
    ("the", "a"),
    ("the cat " * 40, "a dog " * 30),
    ("", ""),
]


def serialize(question, answer):
    texts = {"question": question, "answer": answer}
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))
        for name, text in texts.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The trained model, Transform's rows, and the loaded SavedModel."""
    environment.keep_autograph_out_of_keras()
    root = tmp_path_factory.mktemp("training")
    encoder = encoder_lib.open_encoder(str(tiny.write_encoder(root / "encoder")))
    rows = [
        {"question": [q.encode()], "answer": [a.encode()], "label": [i % 3], "idx": [i]}
        for i, (q, a) in enumerate(PAIRS)
    ]
    spec = schema_utils.schema_as_feature_spec(build_schema(TASK)).feature_spec
    metadata = tft.DatasetMetadata.from_feature_spec(spec)
    custom_config = {
        "task": TASK.model_dump(),
        "max_seq_length": MAX_SEQ_LENGTH,
        "vocab_file": encoder.vocab_file,
    }
    with (
        beam.Pipeline(runner=RUNNER) as pipeline,
        tft_beam.Context(temp_dir=str(root / "temp")),
    ):
        data = (pipeline | beam.Create(rows), metadata)
        (transformed, out), transform_fn = data | tft_beam.AnalyzeAndTransformDataset(
            lambda x: preprocessing.preprocessing_fn(x, custom_config)
        )
        transform_fn | tft_beam.WriteTransformFn(str(root / "graph"))
        coder = tft.coders.ExampleProtoCoder(out.schema)
        (
            transformed
            | beam.Reshuffle()
            | beam.Map(coder.encode)
            | beam.io.WriteToTFRecord(
                str(root / "examples"), file_name_suffix=".gz", num_shards=1
            )
        )
    task = PairClassificationTask(encoder=encoder, classes=3, dropout=0.5)
    model = task.build_model()
    task.initialize(model)
    graph = tft.TFTransformOutput(str(root / "graph"))
    export.export_model(model, graph, TASK, str(root / "saved_model"))
    examples = inputs.read_examples([f"{root}/examples*"], "idx")
    logits = {
        int(ids[0]): model(batch, training=False).numpy()[0]
        for batch, ids in inputs.eval_batches(examples, batch_size=1, pad_to=None)
    }
    moved = tmp_path_factory.mktemp("served") / "1"
    shutil.move(root / "saved_model", moved)
    shutil.rmtree(root)
    return tf.saved_model.load(str(moved)), logits


def serve(loaded, pairs):
    questions, answers = zip(*pairs, strict=True)
    return loaded.signatures["serving_default"](
        question=tf.constant(questions), answer=tf.constant(answers)
    )


def test_signature_answers_with_names_types_and_shapes_of_the_task(exported):
    loaded, _ = exported
    outputs = serve(loaded, PAIRS)
    assert outputs["logits"].dtype == tf.float32
    assert outputs["logits"].shape == (4, 3)
    assert outputs["class_id"].dtype == tf.int64
    np.testing.assert_allclose(
        outputs["probabilities"], tf.nn.softmax(outputs["logits"]), atol=1e-6
    )
    np.testing.assert_allclose(tf.reduce_sum(outputs["probabilities"], 1), 1, atol=1e-5)
    ids = tf.argmax(outputs["logits"], axis=-1).numpy()
    assert outputs["class_id"].numpy().tolist() == ids.tolist()
    names = [TASK.classes[i].encode() for i in ids]
    assert outputs["class"].numpy().tolist() == names


def test_moved_model_equals_the_training_time_forward_pass(exported):
    loaded, logits = exported
    outputs = serve(loaded, PAIRS)["logits"].numpy()
    assert sorted(logits) == list(range(len(PAIRS)))
    for index, expected in logits.items():
        np.testing.assert_allclose(outputs[index], expected, atol=1e-5)


def test_raw_text_and_examples_give_the_same_answer(exported):
    loaded, _ = exported
    examples = tf.constant([serialize(*pair) for pair in PAIRS])
    found = loaded.signatures["serve_examples"](examples=examples)
    expected = serve(loaded, PAIRS)
    assert set(found) == set(expected)
    np.testing.assert_allclose(found["logits"], expected["logits"], atol=1e-6)


def test_texts_keep_the_order_of_the_task(exported):
    loaded, _ = exported
    assert loaded.text_columns().numpy().tolist() == [b"question", b"answer"]
    examples = tf.constant([serialize("the cat", "a")])
    ids = loaded.signatures["transform_features"](examples=examples)["input_word_ids"]
    tokens = [tiny.VOCAB[i] for i in ids.numpy()[0]]
    assert tokens == ["[CLS]", "the", "cat", "[SEP]", "a", "[SEP]"]


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_any_batch_size_gives_each_row_its_own_answer(exported, rows):
    loaded, _ = exported
    pairs = [PAIRS[i % len(PAIRS)] for i in range(rows)]
    found = serve(loaded, pairs)["logits"].numpy()
    expected = serve(loaded, PAIRS)["logits"].numpy()
    for index in range(rows):
        np.testing.assert_allclose(found[index], expected[index % 4], atol=1e-5)


def test_empty_batch_gives_empty_answers(exported):
    loaded, _ = exported
    empty = tf.constant([], tf.string)
    outputs = loaded.signatures["serving_default"](question=empty, answer=empty)
    assert outputs["logits"].shape == (0, 3)
    assert outputs["class"].shape == (0,)
    outputs = loaded.signatures["serve_examples"](examples=empty)
    assert outputs["probabilities"].shape == (0, 3)


def test_text_that_is_long_or_not_utf_8_is_answered(exported):
    loaded, _ = exported
    outputs = loaded.signatures["serving_default"](
        question=tf.constant([b"cat " * 100_000, b"\xff\xfe\x00\x80"]),
        answer=tf.constant([b"\xc3", "中文 \U0001f600".encode()]),
    )
    assert np.isfinite(outputs["logits"].numpy()).all()


def test_slices_are_by_length_of_the_pair_and_word_overlap(exported):
    loaded, _ = exported
    pairs = [
        ("the cat", "the cat"),
        ("the cat sees", "a dog likes"),
        ("word " * 30, "other " * 30),
        ("a b c d", "A, B! e f g"),
    ]
    examples = tf.constant([serialize(*pair) for pair in pairs])
    slices = loaded.signatures["slice_features"](examples=examples)
    lengths = [b"0-19", b"0-19", b"60+", b"0-19"]
    assert slices["pair_length"].numpy().tolist() == lengths
    overlaps = [b"75+", b"0-24", b"0-24", b"25-49"]
    assert slices["word_overlap"].numpy().tolist() == overlaps


def test_graph_asks_tensorflow_text_for_two_old_ops_alone(exported):
    """Older TF Serving images lack newer ones, such as that of RoundRobinTrimmer."""
    loaded, _ = exported
    graph = loaded.signatures["serve_examples"].graph.as_graph_def()
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    core = {name for name in dir(tf.raw_ops) if not name.startswith("_")}
    foreign = {node.op for node in nodes} - core
    defined = {function.signature.name for function in graph.library.function}
    assert foreign - defined == {
        "FastBertNormalize",
        "FastWordpieceTokenizeWithOffsets",
    }
