"""Writes the weights of our model as models of other projects' code."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf
import tf_keras
from official.nlp.modeling import layers, models, networks

from contracts.task.definition import TaskConfig
from contracts.versions import exported_model
from modules.data import tokenizer_files
from modules.encoder.directory import EncoderDirectory, describe_architecture
from modules.encoder_files import SIZE_KEYS
from modules.training import warm_start
from modules.training.fine_tuning_task import FineTuningConfig, FineTuningTask


def restore(
    exported: Path, encoder: EncoderDirectory, task: TaskConfig
) -> models.BertClassifier:
    """Builds our model with the weights of an exported one.

    Args:
      exported: The SavedModel.
      encoder: The encoder of its training, or one of the same architecture.
      task: The task of its training.

    Raises:
      ValueError: The architecture or the classes differ.
    """
    expected = warm_start.describe(task, describe_architecture(encoder))
    if problem := warm_start.find_incompatibility(str(exported), expected):
        raise ValueError(problem)
    params = FineTuningConfig(init_checkpoint=encoder.directory)
    fine_tuning = FineTuningTask(params, task)
    model = fine_tuning.build_model()
    warm_start.restore(model, str(exported), fine_tuning.build_model)
    return model


class InputProcessor(tf_keras.layers.Layer):
    """The tutorial's preprocessor: tokens, packed to a fixed length."""

    def __init__(self, columns: list[str], vocab_file: str, length: int) -> None:
        super().__init__()
        self._columns = columns
        self._tokenizer = layers.FastWordpieceBertTokenizer(
            vocab_file=vocab_file,
            lower_case=tokenizer_files.read_tokenizer(
                vocab_file
            ).settings.do_lower_case,
        )
        self._packer = layers.BertPackInputs(
            seq_length=length,
            special_tokens_dict=self._tokenizer.get_special_tokens_dict(),
        )

    def call(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the encoder's inputs, each int32[batch, length]."""
        return self._packer([self._tokenizer(inputs[name]) for name in self._columns])


class TutorialModel(tf.Module):
    """The export of the Model Garden's tutorial "Fine-tuning a BERT model".

    Here `tf.argmax` runs over the classes. In the tutorial it runs over the batch: a
    mistake.
    """

    def __init__(
        self, processor: InputProcessor, classifier: tf_keras.Model, classes: list[str]
    ) -> None:
        super().__init__()
        self._processor = processor
        self._classifier = classifier
        self._classes = classes

    def serve(self, inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Classifies texts, each string[batch]."""
        logits = self._classifier(self._processor(inputs), training=False)
        class_id = tf.argmax(logits, axis=-1)
        names = tf.gather(tf.constant(self._classes), class_id)
        return {
            exported_model.LOGITS: logits,
            exported_model.CLASS_ID: class_id,
            exported_model.CLASS: names,
        }


def write_tutorial(
    model: tf_keras.Model,
    encoder: EncoderDirectory,
    task: TaskConfig,
    directory: Path,
    *,
    max_seq_length: int,
) -> None:
    """Writes the tutorial's SavedModel, on the Model Garden's own encoder.

    Args:
      model: Our model.
      encoder: Its encoder.
      task: Names the columns and the classes.
      directory: A new directory.
      max_seq_length: Length of every padded pair, in tokens.
    """
    classifier = build_stock(encoder, task.outputs)
    weights = {variable.name: variable for variable in model.variables}
    for variable in classifier.variables:
        variable.assign(tf.reshape(weights[variable.name], variable.shape))
    processor = InputProcessor(task.text_columns, encoder.vocab_file, max_seq_length)
    serving = TutorialModel(processor, classifier, list(task.classes or []))
    columns = {
        name: tf.TensorSpec([None], tf.string, name=name) for name in task.text_columns
    }
    signature = tf.function(serving.serve).get_concrete_function(columns)
    tf.saved_model.save(
        serving, str(directory), {exported_model.SERVING_DEFAULT: signature}
    )


def build_stock(encoder: EncoderDirectory, outputs: int) -> models.BertClassifier:
    """Builds the Model Garden's own classifier, untrained, as tutorials do.

    Args:
      encoder: The encoder, whose architecture is used.
      outputs: Number of classes.
    """
    size = {key: encoder.config[key] for key in SIZE_KEYS}
    approximate = encoder.is_gelu_approximate
    network = networks.BertEncoder(
        vocab_size=size["vocab_size"],
        hidden_size=size["hidden_size"],
        num_layers=size["num_hidden_layers"],
        num_attention_heads=size["num_attention_heads"],
        max_sequence_length=size["max_position_embeddings"],
        type_vocab_size=size["type_vocab_size"],
        inner_dim=size["intermediate_size"],
        # The tutorial uses approximate GELU; these weights may need the exact one.
        inner_activation=lambda x: tf_keras.activations.gelu(x, approximate),
        dict_outputs=True,
    )
    return models.BertClassifier(network=network, num_classes=outputs)
