"""The model and the Examples that the memory benchmark makes up, and its table."""

import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from benchmarks import evaluation_memory
from modules import encoder as encoder_lib
from modules import environment
from pipeline.config.recipe import load_config
from tests import tiny

SIZE = {
    "hidden_size": tiny.HIDDEN,
    "num_hidden_layers": tiny.LAYERS,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}


def test_made_up_encoder_is_exported_and_answers_examples(tmp_path):
    environment.set_up()
    config = load_config(tiny.write_config(tmp_path / "recipe.yaml"))
    path = tmp_path / "made up"
    evaluation_memory.write_encoder(path, tiny.VOCAB, **SIZE)
    encoder = encoder_lib.open_encoder(str(path))
    evaluation_memory.export_model(config, encoder, tmp_path / "model")
    columns = config.task.text_columns
    examples = tmp_path / "examples.tfrecord"
    rows = [["The cat sees a dog.", "A dog."], ["word " * 200, "word " * 200]]
    evaluation_memory.write_examples(examples, columns, rows)
    served = tf.saved_model.load(str(tmp_path / "model"))
    records = list(tf.data.TFRecordDataset(str(examples)).as_numpy_iterator())
    found = served.signatures["serve_examples"](examples=tf.constant(records))
    assert found["probabilities"].shape == (2, 2)
    inputs = served.signatures["transform_features"](examples=tf.constant(records))
    # The second row is cut to the recipe's longest length.
    assert tf.reduce_sum(inputs["input_mask"], 1).numpy().tolist()[1] == 32


def test_peak_of_all_rounds_is_told_above_what_was_loaded():
    results = {
        evaluation_memory.LONGEST: [
            {"s": 2.0, "MB of imports": 500, "MB loaded": 900, "MB at most": peak}
            for peak in (1300, 1200)
        ]
    }
    (line,) = evaluation_memory.table(results).splitlines()[2:]
    cells = ("500", "900", "1300", "400", "2.0 (2.0 to 2.0)")
    assert line == " | ".join([f"| {evaluation_memory.LONGEST}", *cells]) + " |"


def test_size_of_bert_base_is_told_by_its_parameters():
    from modules.encoder import hugging_face

    config = {**evaluation_memory.BERT_BASE, "vocab_size": 30522}
    shapes = hugging_face.expected_shapes(config).values()
    parameters = sum(tf.TensorShape(shape).num_elements() for shape in shapes)
    assert parameters == 109_482_240
