"""SavedModels with the signatures of exported models that predict in microseconds."""

import tensorflow as tf

from contracts.versions import exported_model


class Longer(tf.Module):
    """Classifies which of two texts is longer."""

    @tf.function(input_signature=[])
    def text_columns(self):
        """Returns the columns, in another order than the alphabet's."""
        return tf.constant(["right", "left"])

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "right"),
            tf.TensorSpec([None], tf.string, "left"),
        ]
    )
    def serve(self, right, left):
        """Returns 0.9 for the longer one, and 0.6 for the first of two equal ones."""
        lengths = tf.stack([tf.strings.length(right), tf.strings.length(left)], 1)
        class_id = tf.argmax(lengths, axis=-1)
        share = tf.where(lengths[:, 0] == lengths[:, 1], 0.6, 0.9)[:, tf.newaxis]
        is_longer = tf.one_hot(class_id, 2, True, False)
        return {
            "class": tf.gather(["first", "second"], class_id),
            "class_id": class_id,
            "probabilities": tf.where(is_longer, share, 1 - share),
        }


class Length(tf.Module):
    """Scores a single text by a tenth of its length."""

    @tf.function(input_signature=[])
    def text_columns(self):
        """Returns the column."""
        return tf.constant(["sentence"])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "sentence")])
    def serve(self, sentence):
        """Returns the score."""
        return {"score": tf.cast(tf.strings.length(sentence), tf.float32) / 10}


class Letters(tf.Module):
    """Labels a text by the letters that it has, of `a` and `b`."""

    LABELS = ("with a", "with b")

    @tf.function(input_signature=[])
    def text_columns(self):
        """Returns the column."""
        return tf.constant(["sentence"])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "sentence")])
    def serve(self, sentence):
        """Returns 0.9 for a letter of the text, and 0.2 for any other character."""
        has = [tf.strings.regex_full_match(sentence, f".*{c}.*") for c in "ab"]
        is_set = tf.stack(has, axis=1)
        shares = tf.where(is_set, 0.9, 0.2)
        labels = tf.cast(is_set, tf.int64)
        return {"labels": labels, "probabilities": shares, "logits": shares}


def save(model, directory):
    """Writes a toy model, one of several labels with their names."""
    tf.saved_model.save(model, str(directory), signatures=model.serve)
    if isinstance(model, Letters):
        described = {
            "kind": "multilabel",
            "classes": model.LABELS,
            "label_range": None,
            "separator": "|",
        }
        exported_model.write_description(str(directory), described)
    return directory
