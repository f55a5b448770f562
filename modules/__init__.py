"""What TFX's standard components load: preprocessing, model, training, export."""

from modules import environment as environment  # before anything imports TensorFlow
