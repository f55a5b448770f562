"""Rows in serialized Examples and back."""

from ingest.examples import tf_examples


def test_example_keeps_features_of_all_kinds():
    row = {"text": ["é", "b"], "number": 3, "score": 0.5, "none": None}
    serialized = tf_examples.from_row({"prediction": "yes"}, tf_examples.from_row(row))
    assert tf_examples.to_row(serialized) == {
        "text": ["é", "b"],
        "number": 3,
        "score": 0.5,
        "prediction": "yes",
    }
