"""Builds and starts the pipeline: recipe, DAG, command line, orchestrators."""

import modules as modules  # sets TF_USE_LEGACY_KERAS before TensorFlow is imported
