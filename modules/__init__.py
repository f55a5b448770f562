"""What TFX's standard components load: preprocessing, model, training, export.

Importing it sets one environment variable, which TensorFlow reads when it is imported,
and registers TensorFlow as the reader of remote files. `modules.environment.set_up`
does the rest, once per process.
"""

import os

from contracts.storage import files
from modules.remote_files import TensorFlowFiles

# tft, tfma and the Model Garden are written against Keras 2 (`tf_keras`).
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
files.register_remote(TensorFlowFiles())
