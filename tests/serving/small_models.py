"""SavedModels that load fast: TensorFlow Serving's example, and models of our own."""

import json

import tensorflow as tf

v1 = tf.compat.v1


def save_half_plus_three(directory):
    """Writes the model of the REST documentation, y = x / 2 + 3, by TensorFlow 1."""
    with tf.Graph().as_default(), v1.Session() as session:
        half = v1.get_variable("a", initializer=0.5)
        three = v1.get_variable("b", initializer=3.0)
        x = v1.placeholder(tf.float32, [None], "x")
        examples = v1.placeholder(tf.string, [None], "tf_example")
        spec = {"x": tf.io.FixedLenFeature([], tf.float32)}
        parsed = tf.io.parse_example(examples, spec)["x"]
        session.run(v1.global_variables_initializer())
        build = v1.saved_model.predict_signature_def
        signatures = {
            "serving_default": build({"x": x}, {"y": half * x + three}),
            "parse": build({"examples": examples}, {"y": half * parsed + three}),
        }
        builder = v1.saved_model.Builder(str(directory))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    return directory


class Types(tf.Module):
    """Returns its inputs, which have several types."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "text"),
            tf.TensorSpec([None, 2], tf.float32, "numbers"),
            tf.TensorSpec([None], tf.int64, "count"),
        ]
    )
    def serve(self, text, numbers, count):
        return {
            "text": text,
            "text_bytes": text,
            "numbers": numbers,
            "count": count,
            "is_positive": count > 0,
        }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "numbers")])
    def total(self, numbers):
        return {"total": tf.reduce_sum(numbers)}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.bool, "flag"),
            tf.TensorSpec([None], tf.uint8, "byte"),
        ]
    )
    def small(self, flag, byte):
        return {"flag": flag, "byte": byte}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.complex64, "z")])
    def length(self, z):
        """Takes numbers that JSON cannot have."""
        return {"length": tf.abs(z)}


def save_types(directory):
    """Writes a model of several types, whose signature `total` is not by row."""
    model = Types()
    signatures = {
        "serving_default": model.serve,
        "total": model.total,
        "small": model.small,
        "length": model.length,
    }
    tf.saved_model.save(model, str(directory), signatures=signatures)
    return directory


WAITING = -1


class Counter(tf.Module):
    """Returns its version after counting to a number, or once a file exists."""

    def __init__(self, version, file):
        super().__init__()
        self.version = tf.Variable(version, dtype=tf.int64)
        self.file = tf.Variable(str(file))  # TensorFlow would list a constant once

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "steps")])
    def serve(self, steps):
        last = tf.reduce_max(tf.concat([steps, [0]], 0))
        done = tf.while_loop(
            lambda i: i < last, lambda i: i + 1, [tf.constant(0, tf.int64)]
        )
        waited = wait_for(self.file, tf.reduce_any(steps == WAITING))
        # Depends on the loops, which TensorFlow would prune otherwise.
        ended = tf.minimum(done[0], 0) + waited
        return {"version": self.version + 0 * steps + ended}


def wait_for(file, waits):
    """Returns 0, an int64, once a file exists, or at once unless it `waits`."""
    waited = tf.while_loop(
        lambda i: waits & (tf.size(tf.io.matching_files(file)) == 0),
        lambda i: i + 1,
        [tf.constant(0, tf.int64)],
    )
    return tf.minimum(waited[0], 0)


def save_counter(directory, version):
    """Writes a model that returns its version, after as many steps as its input.

    If the input is `WAITING`, it waits for the file `go` beside the directory of the
    versions.
    """
    model = Counter(version, directory.parent.with_name("go"))
    tf.saved_model.save(model, str(directory), signatures=model.serve)
    return directory


class Echo(tf.Module):
    """Returns its texts and its version."""

    def __init__(self, version):
        super().__init__()
        self.version = tf.Variable(version, dtype=tf.int64)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def serve(self, text):
        return {"echo": text, "version": tf.fill(tf.shape(text), self.version)}


def save_echo(directory, version):
    """Writes a model that returns its texts, so that every response is known."""
    model = Echo(version)
    tf.saved_model.save(model, str(directory), signatures=model.serve)
    return directory


class SlowTokens(Echo):
    """Returns its texts, and their only token once a file exists."""

    def __init__(self, file):
        super().__init__(1)
        self.file = tf.Variable(str(file))

    @tf.function(input_signature=[])
    def text_columns(self):
        return tf.constant(["text"])

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def tokenize(self, text):
        """Returns the outputs that the server checks."""
        is_real = tf.reduce_any(text != "")  # the warm-up has an empty one
        waited = wait_for(self.file, is_real)
        column = tf.zeros([tf.size(text), 1], tf.int64) + waited
        return {"token": text[:, tf.newaxis], "column": column, "cut": column}


def save_slow_tokens(directory, file):
    """Writes a model whose signature `tokenize` waits for a file."""
    model = SlowTokens(file)
    signatures = {"serving_default": model.serve, "tokenize": model.tokenize}
    tf.saved_model.save(model, str(directory), signatures=signatures)
    return directory


class Classifier(tf.Module):
    """Predicts the first class for every text."""

    def __init__(self, classes):
        super().__init__()
        self.names = tf.constant(classes)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def serve(self, text):
        """Returns the outputs of a classifier that the pipeline exports."""
        logits = tf.one_hot(tf.zeros_like(text, tf.int32), tf.size(self.names))
        return {
            "class": tf.fill(tf.shape(text), self.names[0]),
            "class_id": tf.zeros_like(text, tf.int64),
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
        }


def save_classifier(directory, classes, examples):
    """Writes a classifier with the names of its classes and its examples."""
    model = Classifier(classes)
    tf.saved_model.save(model, str(directory), signatures=model.serve)
    extra = directory / "assets.extra"
    extra.mkdir()
    (extra / "architecture.json").write_text(json.dumps({"classes": classes}))
    (extra / "examples.json").write_text(json.dumps({"instances": examples}))
    return directory
