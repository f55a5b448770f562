"""The files and directories of a SavedModel, for code that needs no TensorFlow.

TensorFlow has the same names in `tensorflow/python/saved_model/constants.py`.
"""

GRAPH_FILE = "saved_model.pb"  # a directory with this file is a SavedModel
FINGERPRINT_FILE = "fingerprint.pb"
VARIABLES = "variables"  # the directory, and the prefix of the files in it
ASSETS = "assets"
EXTRA_ASSETS = "assets.extra"  # for files that TensorFlow does not read
