"""SavedModels that TensorFlow Serving's documentation speaks of, and toys."""

import tensorflow as tf

v1 = tf.compat.v1


def save_half_plus_three(directory):
    """Writes the model of the REST documentation: y = x / 2 + 3."""
    with tf.Graph().as_default(), v1.Session() as session:
        half = v1.get_variable("a", initializer=0.5)
        three = v1.get_variable("b", initializer=3.0)
        x = v1.placeholder(tf.float32, [None], "x")
        examples = v1.placeholder(tf.string, [None], "tf_example")
        spec = {"x": tf.io.FixedLenFeature([1], tf.float32)}
        parsed = tf.io.parse_example(examples, spec)["x"]
        answer = half * parsed + three
        labels = tf.fill(tf.shape(answer), "y")
        session.run(v1.global_variables_initializer())
        build = v1.saved_model.signature_def_utils
        signatures = {
            "serving_default": v1.saved_model.predict_signature_def(
                {"x": x}, {"y": half * x + three}
            ),
            "tensorflow/serving/regress": build.regression_signature_def(
                examples, answer
            ),
            "tensorflow/serving/classify": build.classification_signature_def(
                examples, labels, answer
            ),
        }
        builder = v1.saved_model.Builder(str(directory))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return directory


class Kinds(tf.Module):
    """Gives back what it gets, of several types."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "text"),
            tf.TensorSpec([None, 2], tf.float32, "numbers"),
            tf.TensorSpec([None], tf.int64, "count"),
        ]
    )
    def serve(self, text, numbers, count):
        """Answers in rows."""
        return {
            "text": text,
            "text_bytes": text,
            "numbers": numbers,
            "count": count,
            "is_positive": count > 0,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "numbers")])
    def total(self, numbers):
        """Answers with one number for all rows."""
        return {"total": tf.reduce_sum(numbers)}


def save_kinds(directory):
    """Writes a model of several types, whose signature `total` is not by row."""
    model = Kinds()
    signatures = {"serving_default": model.serve, "total": model.total}
    tf.saved_model.save(model, str(directory), signatures=signatures)
    return directory


class Counter(tf.Module):
    """Says which version it is, after so many steps as it is asked for."""

    def __init__(self, version):
        super().__init__()
        self.version = tf.Variable(version, dtype=tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "steps")])
    def serve(self, steps):
        """Answers with its version."""
        last = tf.reduce_max(tf.concat([steps, [0]], 0))
        done = tf.while_loop(
            lambda i: i < last, lambda i: i + 1, [tf.constant(0, tf.int64)]
        )
        # Of the loop, which would be cut out otherwise.
        return {"version": self.version + 0 * steps + tf.minimum(done[0], 0)}


def save_counter(directory, version):
    """Writes a model that tells its version, slowly if asked to."""
    model = Counter(version)
    tf.saved_model.save(model, str(directory), signatures=model.serve)
    return directory
