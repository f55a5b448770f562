"""The exported model: raw text in, classes or a score out."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
import tf_keras
from tf_keras.src.saving.legacy.saved_model import utils as keras_saving

from contracts import metrics
from contracts.packing import Packing
from contracts.storage import files, uris
from contracts.task.definition import TOKENIZED_FEATURES, TaskConfig
from contracts.versions import exported_model
from modules.data import preprocessing, slicing
from modules.data.inputs import ExamplesConfig
from modules.data.preprocessing import ENCODER_INPUTS, INPUT_MASK
from modules.data.tokenization import BertTokenizer
from modules.encoder.directory import EncoderDirectory, describe_architecture
from modules.encoder.model import DEFAULTS
from modules.encoder.window_classifier import WindowClassifier
from modules.export.shared_constants import share_constants

# The encoder runs on chunks of this many rows, or windows of long texts, two of them in
# parallel. Rows of similar length need little padding, and idle cores work on another
# chunk. Memory is bounded on any batch: TFMA sends up to 1,000 rows, and no setting
# changes that.
_ROWS_AT_A_TIME = 16
_NOWHERE = -1  # the column and position of special tokens and padding
# From logits, temperature and threshold to the outputs of the exported model.
ServeLogits = Callable[[tf.Tensor, tf.Tensor, tf.Tensor | None], dict[str, tf.Tensor]]


class TracedModel:
    """A model's inference, traced once for all callers.

    Args:
      model: On one device; it takes the encoder's inputs int32[batch, seq_len].
    """

    def __init__(self, model: tf_keras.Model) -> None:
        self.model = model
        specs = {name: tf.TensorSpec([None, None], tf.int32) for name in ENCODER_INPUTS}
        has_windows = isinstance(model, WindowClassifier)
        classify = model.classify_windows if has_windows else model
        self._predict_chunk = tf.function(
            lambda features: tf.cast(classify(features, training=False), tf.float32),
            input_signature=[specs],
            autograph=False,
        )
        self._predict = tf.function(
            self._predict_windows if has_windows else self._predict_in_chunks,
            input_signature=[specs],
            autograph=False,
        )

    def __call__(
        self, features: dict[str, tf.Tensor], training: bool = False
    ) -> tf.Tensor:
        """Predicts as the model does with `training=False`.

        Args:
          features: The encoder's inputs, int32[batch, seq_len]; any batch size.
          training: Must be False; Keras models have this argument.

        Returns:
          The model's outputs, float32[batch, outputs].
        """
        assert not training
        return self._predict(features)

    def _predict_windows(self, features: dict[str, tf.Tensor]) -> tf.Tensor:
        windows = self.model.split(features)
        return self.model.pool(self._predict_in_chunks(windows.features), windows)

    def _predict_in_chunks(self, features: dict[str, tf.Tensor]) -> tf.Tensor:
        lengths = tf.reduce_sum(features[INPUT_MASK], axis=1)
        order = tf.argsort(lengths)
        features = {name: tf.gather(ids, order) for name, ids in features.items()}
        longest = tf.gather(lengths, order)
        rows = tf.size(order)
        chunks = -(-rows // _ROWS_AT_A_TIME)
        # A TensorArray, because an empty batch must give an empty result. Its size is
        # fixed, because TensorFlow 2.12 fails on arrays that grow.
        outputs = tf.TensorArray(
            tf.float32,
            size=chunks,
            infer_shape=False,
            element_shape=self._predict_chunk.get_concrete_function().output_shapes,
        )

        def predict_rows(index: tf.Tensor, outputs: tf.TensorArray) -> tuple:
            start = index * _ROWS_AT_A_TIME
            end = tf.minimum(start + _ROWS_AT_A_TIME, rows)
            length = longest[end - 1]
            chunk = {name: ids[start:end, :length] for name, ids in features.items()}
            return index + 1, outputs.write(index, self._predict_chunk(chunk))

        _, outputs = tf.while_loop(
            lambda index, _: index < chunks,
            predict_rows,
            (tf.constant(0), outputs),
            parallel_iterations=2,
        )
        return tf.gather(outputs.concat(), tf.math.invert_permutation(order))


def in_large_batches(data: ExamplesConfig) -> ExamplesConfig:
    """Returns a split in batches of several chunks, which keep all cores busy."""
    return data.replace(global_batch_size=8 * _ROWS_AT_A_TIME)


def export_model(
    model: TracedModel,
    transform: tft.TFTransformOutput,
    task: TaskConfig,
    serve: ServeLogits,
    directory: str,
    *,
    vocab_file: str,
    packing: Packing,
    temperature: float = 1.0,
    threshold: metrics.Threshold = None,
) -> None:
    """Writes a SavedModel that depends on no other file.

    Args:
      model: The trained model, from the encoder's inputs to logits or a score.
      transform: Transform's graph, which becomes a part of the model.
      task: Names the inputs and the classes.
      serve: Returns the outputs of the model from logits, `Head.serve`.
      directory: Directory of the SavedModel.
      vocab_file: The encoder's vocabulary, one token a line; it becomes a part of the
        graph.
      packing: How texts become model inputs.
      temperature: Divides the logits before they become probabilities; see
        `calibration.fit_temperature`. The logits of the signatures are not divided.
      threshold: As in `metrics.Rows.of`.
    """
    serving = ServingModel(
        model,
        transform,
        task,
        serve,
        vocab_file=vocab_file,
        packing=packing,
        temperature=temperature,
        threshold=threshold,
    )
    # The functions of each Keras layer and the custom gradients are left out: nothing
    # calls them, and tracing them took longer than the rest of the export.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    with keras_saving.keras_option_scope(save_traces=False):
        tf.saved_model.save(serving, directory, serving.signatures(), options)
    share_constants(directory)


def describe_model(
    directory: str,
    task: TaskConfig,
    encoder: EncoderDirectory,
    *,
    packing: Packing,
    precision: str,
    fitted: Mapping[str, Any],
) -> None:
    """Writes the description of an exported model, and its vocabulary.

    The graph has the vocabulary in a form that other runtimes cannot read.

    Args:
      directory: Directory of the SavedModel.
      task: The task of its training.
      encoder: The encoder of its training.
      packing: How texts become model inputs.
      precision: Type of the exported weights.
      fitted: How outputs follow from logits: `FittedOutputs.description`.
    """
    epsilon = {**DEFAULTS, **encoder.config}[exported_model.LAYER_NORM_EPS]
    exported_model.write_description(
        directory,
        {
            **exported_model.describe_task(task),
            **describe_architecture(encoder),
            exported_model.LAYER_NORM_EPS: epsilon,
            exported_model.TOKENIZER: dataclasses.asdict(encoder.tokenizer.settings),
            **packing.key(),
            exported_model.PRECISION: precision,
            **fitted,
        },
    )
    files.copy(encoder.vocab_file, uris.join(directory, exported_model.VOCABULARY_FILE))


class ServingModel(tf.Module):
    """A trained model with the graph that prepares its inputs.

    The arguments are those of `export_model`.
    """

    def __init__(
        self,
        model: TracedModel,
        transform: tft.TFTransformOutput,
        task: TaskConfig,
        serve: ServeLogits,
        *,
        vocab_file: str,
        packing: Packing,
        temperature: float,
        threshold: metrics.Threshold,
    ) -> None:
        super().__init__()
        # Variables, so that they can be read from the exported model.
        self.temperature = tf.Variable(
            temperature, trainable=False, name=exported_model.TEMPERATURE
        )
        self.threshold = None
        if threshold is not None:
            self.threshold = tf.Variable(
                threshold, trainable=False, name=exported_model.THRESHOLD
            )
        self._model = model.model  # tracked, so that its variables are saved
        self._forward = model
        self._raw_spec = transform.raw_feature_spec()
        self._transform_layer = transform.transform_features_layer()
        self._task = task
        self._serve = serve
        self._vocab_file = vocab_file
        self._packing = packing
        # The signatures share these functions, so that the encoder and the tokenizer's
        # tables are traced once, and are in the graph once. `tf.saved_model.save` would
        # trace attributes of the module again, so they are in a namespace.
        # `serve_text` is a concrete function, so that saving `__call__` does not trace
        # it again.
        self._shared = types.SimpleNamespace(
            predict=tf.function(self._predict, autograph=False),
            pack_text=tf.function(self._pack_text, autograph=False),
            pack_examples=tf.function(self._pack_examples, autograph=False),
        )
        self._shared.serve_text = _traced(self._serve_text, *self._text_specs())
        # A loaded model is callable, as in the Model Garden's tutorials.
        self.__call__ = tf.function(
            self._serve_columns,
            input_signature=[{spec.name: spec for spec in self._text_specs()}],
            autograph=False,
        )

    @tf.function(input_signature=[])
    def text_columns(self) -> tf.Tensor:
        """Returns the names of the text columns in order, string[1] or string[2].

        A loaded signature does not keep the order of its arguments.
        """
        return tf.constant(self._task.text_columns)

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """Traces the signatures.

        Returns:
          `serving_default`, of one string[batch] a text column, and `serve_examples`,
          of serialized `tf.Example`s string[batch] as in training. Both return
          `logits` and `probabilities` float32[batch, classes], `class_id` int64[batch]
          and `class` string[batch], or `labels` int64[batch, classes] of several
          labels; a regression only `score` float32[batch].
          `transform_features` and `slice_features`, of Examples. `tokenize` returns
          the result of `find_tokens` for the text columns.
        """
        examples = tf.TensorSpec([None], tf.string, name=exported_model.EXAMPLES)
        traced = {
            name: _traced(function, examples)
            for name, function in (
                (exported_model.SERVE_EXAMPLES, self._serve_examples),
                (exported_model.TRANSFORM_FEATURES, self._transform_features),
                (exported_model.SLICE_FEATURES, self._slice_features),
            )
        }
        traced[exported_model.TOKENIZE] = _traced(self._tokenize, *self._text_specs())
        return {exported_model.SERVING_DEFAULT: self._shared.serve_text, **traced}

    def _text_specs(self) -> list[tf.TensorSpec]:
        return [
            tf.TensorSpec([None], tf.string, name=column)
            for column in self._task.text_columns
        ]

    def _serve_columns(self, columns: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        texts = (columns[name] for name in self._task.text_columns)
        return self._shared.serve_text(*texts)

    def _serve_text(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._shared.predict(*self._shared.pack_text(*texts))

    def _serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._shared.predict(*self._shared.pack_examples(examples))

    def _transform_features(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return preprocessing.pad_inputs(*self._shared.pack_examples(examples))

    def _slice_features(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        if self._task.is_tokenized:
            word_ids, _ = self._shared.pack_examples(examples)
            slices = slicing.slice_tokens(word_ids)
        else:
            slices = slicing.slice_texts(*self._parse_text(examples))
        return {self._task.own_name(name): slices[name] for name in slices}

    def _tokenize(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return find_tokens(list(texts), self._vocab_file, self._packing)

    def _predict(
        self, word_ids: tf.RaggedTensor, type_ids: tf.RaggedTensor
    ) -> dict[str, tf.Tensor]:
        logits = self._forward(preprocessing.pad_inputs(word_ids, type_ids))
        return self._serve(logits, self.temperature, self.threshold)

    def _pack_text(self, *texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        if self._task.is_tokenized:
            # Transform's graph begins after the tokenizer.
            packed = preprocessing.text_to_inputs(
                list(texts), self._vocab_file, self._packing
            )
            return (
                packed[preprocessing.INPUT_WORD_IDS],
                packed[preprocessing.INPUT_TYPE_IDS],
            )
        columns = zip(self._task.text_columns, texts, strict=True)
        return self._run_transform(
            {name: self._as_raw(name, text) for name, text in columns}
        )

    def _as_raw(self, name: str, text: tf.Tensor) -> tf.Tensor | tf.SparseTensor:
        column = tf.reshape(text, [-1, 1])
        # Transform's graph takes a sparse column if a curated schema sets no `shape`.
        if isinstance(self._raw_spec[name], tf.io.VarLenFeature):
            return tf.sparse.from_dense(column)
        return column

    def _pack_examples(
        self, examples: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        if not self._task.is_tokenized:
            return self._shared.pack_text(*self._parse_text(examples))
        # The schema's spec, because a curated schema may fix the features' length.
        spec = {name: self._raw_spec[name] for name in TOKENIZED_FEATURES}
        return self._run_transform(tf.io.parse_example(examples, spec))

    def _parse_text(self, examples: tf.Tensor) -> list[tf.Tensor]:
        text = tf.io.FixedLenFeature([], tf.string)
        columns = self._task.text_columns
        features = tf.io.parse_example(examples, dict.fromkeys(columns, text))
        return [features[name] for name in columns]

    def _run_transform(
        self, raw: dict[str, tf.Tensor | tf.SparseTensor]
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        features = self._transform_layer(raw)
        word_ids, type_ids = (
            tf.RaggedTensor.from_sparse(features[self._task.own_name(name)])
            for name in (preprocessing.INPUT_WORD_IDS, preprocessing.INPUT_TYPE_IDS)
        )
        return word_ids, type_ids


def find_tokens(
    texts: list[tf.Tensor], vocab_file: str, packing: Packing
) -> dict[str, tf.Tensor]:
    """Tokenizes, truncates and packs texts as the model does, and locates the tokens.

    A text that the model reads in windows is packed as a whole: each token is there
    once, however many windows have it.

    Args:
      texts: One text, or the two of a pair, each string[batch].
      vocab_file: One token a line. Its encoder's settings are next to it.
      packing: The longest sequence, and the part that is kept.

    Returns:
      `token` string[batch, tokens], with special tokens; padding is empty. Of each
      token: `column` int64[batch, tokens], the index of its text, and `start` and
      `end` int64[batch, tokens], its bytes in that text; all three are -1 for special
      tokens and padding. `cut` int64[batch, texts], the tokens that each text lost.
    """
    # One call for all texts: every call embeds the vocabulary in the graph.
    tokens, starts, ends = BertTokenizer(vocab_file, tf.string).tokenize_with_offsets(
        tf.concat(texts, 0)
    )
    # Packed are the indices of the tokens, once. Ragged operations are large graphs,
    # which every load of the model reads.
    count = tf.size(tokens.flat_values, tf.int64)
    indices = tokens.with_flat_values(tf.range(count))
    batch = tf.shape(texts[0])[0]
    segments = [indices[i * batch : (i + 1) * batch] for i in range(len(texts))]
    first, last, padding = -1, -2, -3
    packed = preprocessing.pack_segments(
        segments,
        packing.whole,
        special_token_ids=(first, last),
    )[preprocessing.INPUT_WORD_IDS].to_tensor(default_value=padding)
    # The values of special tokens and padding follow those of the tokens.
    index = tf.where(packed < 0, count - 1 - packed, packed)

    def pack(values: tf.Tensor, *special: str | int) -> tf.Tensor:
        return tf.gather(
            tf.concat([values, tf.constant(special, values.dtype)], 0), index
        )

    nowhere = [_NOWHERE] * 3
    # The tokens of the second text follow those of the first.
    is_second = tf.range(count) >= tokens.row_splits[batch]
    columns = pack(tf.cast(is_second, tf.int64), *nowhere)
    kept = [
        tf.math.count_nonzero(columns == column, axis=1) for column in range(len(texts))
    ]
    cut = [
        segment.row_lengths() - rows
        for segment, rows in zip(segments, kept, strict=True)
    ]
    return {
        exported_model.TOKEN: pack(tokens.flat_values, "[CLS]", "[SEP]", ""),
        exported_model.COLUMN: columns,
        exported_model.START: pack(starts.flat_values, *nowhere),
        exported_model.END: pack(ends.flat_values, *nowhere),
        exported_model.CUT: tf.stack(cut, axis=1),
    }


def _traced(
    function: Callable[..., dict[str, tf.Tensor]], *specs: tf.TensorSpec
) -> tf.types.experimental.ConcreteFunction:
    # Nothing here needs AutoGraph, whose conversion takes seconds.
    return tf.function(function, autograph=False).get_concrete_function(*specs)
