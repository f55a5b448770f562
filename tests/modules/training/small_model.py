"""A model of a few hundred numbers, traced in a second, instead of BERT."""

import tf_keras

from modules.data.preprocessing import ENCODER_INPUTS
from modules.encoder.layers import Dropout
from modules.training.fine_tuning_task import FineTuningTask
from tests import tiny


class SmallTask(FineTuningTask):
    """The fine-tuning task with a bag of words instead of a pre-trained encoder."""

    def build_model(self):
        features = {
            name: tf_keras.Input([None], dtype="int32", name=name)
            for name in ENCODER_INPUTS
        }
        embedding = tf_keras.layers.Embedding(len(tiny.VOCAB), 8)
        words = embedding(features["input_word_ids"])
        pooled = tf_keras.layers.GlobalAveragePooling1D()(words)
        pooled = Dropout(self.task_config.dropout)(pooled)
        head = tf_keras.layers.Dense(self.definition.outputs, name="logits")
        if self.definition.classes is None:
            head = self.head.build_projection("glorot_uniform")
        return tf_keras.Model(features, head(pooled))

    def initialize(self, model):
        """Restores the model to start from, or keeps the random weights."""
        if self.task_config.base_model:
            super().initialize(model)
