"""Predictions for files of pairs, with a model that tells its inputs back."""

import json

import pytest
import tensorflow as tf

from pipeline import prediction
from pipeline.errors import UsageError


class Longer(tf.Module):
    """Says which of two texts is longer, by the signature of our models."""

    @tf.function(input_signature=[])
    def text_columns(self):
        """Names the columns in an order that is not the alphabet's."""
        return tf.constant(["right", "left"])

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "right"),
            tf.TensorSpec([None], tf.string, "left"),
        ]
    )
    def serve(self, right, left):
        """Gives 0.9 to the longer one."""
        lengths = tf.stack([tf.strings.length(right), tf.strings.length(left)], 1)
        class_id = tf.argmax(lengths, axis=-1)
        return {
            "class": tf.gather(["first", "second"], class_id),
            "probabilities": tf.one_hot(class_id, 2, 0.9, 0.1),
        }


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A directory with the versions 9 and 10."""
    root = tmp_path_factory.mktemp("serving")
    model = Longer()
    for version in ("9", "10"):
        tf.saved_model.save(model, str(root / version), signatures=model.serve)
    (root / ".11.incomplete").mkdir()
    return root


def test_newest_whole_version_is_taken(served):
    assert prediction.find_model(str(served)) == str(served / "10")
    assert prediction.find_model(str(served / "9")) == str(served / "9")


def test_texts_are_given_in_the_order_of_the_task(served):
    pairs = [("long text", "short"), ("a", "bb")]
    found = list(prediction.predict_pairs(str(served), pairs))
    assert [row.class_name for row in found] == ["first", "second"]
    assert found[0].probability == pytest.approx(0.9)
    assert found[0].texts == ("long text", "short")


def test_table_keeps_its_columns_and_gets_two_more(served, tmp_path):
    source, target = tmp_path / "in.tsv", tmp_path / "out.tsv"
    rows = [f'{i}\t"quoted {i}\t{"x" * (i % 30)}' for i in range(600)]
    source.write_text("\n".join(["n\tleft\tright", *rows]) + "\n")
    assert prediction.predict_file(str(served), str(source), str(target)) == 600
    lines = target.read_text().splitlines()
    assert lines[0] == "n\tleft\tright\tprediction\tprobability"
    assert lines[3] == f"{rows[2]}\tsecond\t0.9"
    assert len(lines) == 601


def test_json_lines_keep_their_fields(served, tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    row = {"id": "é", "left": "a\tb\nc", "right": ""}
    source.write_text(json.dumps(row) + "\n")
    prediction.predict_file(str(served), str(source), str(target))
    found = json.loads(target.read_text())
    assert found == {**row, "prediction": "second", "probability": 0.9}


@pytest.mark.parametrize(
    ("name", "text", "target", "message"),
    [
        ("in.jsonl", '{"left": "a"}\n', "out.jsonl", r":1: column right is None"),
        ("in.jsonl", '{"left": "a"\n', "out.jsonl", r":1: not JSON"),
        ("in.jsonl", '["a"]\n', "out.jsonl", r":1: not a JSON object"),
        ("in.tsv", "left\tright\na\n", "out.tsv", r":2: 1 fields, the header has 2"),
        ("in.csv", "left,right\n", "out.tsv", r"in\.csv: allowed are \.tsv and"),
        ("in.tsv", "left\tright\na\tb\n", "out.txt", r"out\.txt: allowed are \.tsv"),
        ("in.jsonl", '{"left": "a\\tb", "right": ""}', "out.tsv", r"write \.jsonl"),
    ],
)
def test_bad_file_is_refused_with_its_line_and_nothing_is_written(
    served, tmp_path, name, text, target, message
):
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        prediction.predict_file(
            str(served), str(tmp_path / name), str(tmp_path / target)
        )
    assert [path.name for path in tmp_path.iterdir()] == [name]
