"""How the parts are wired and started: recipe, DAG, command line, orchestrators."""

import modules as modules  # sets TF_USE_LEGACY_KERAS before TensorFlow is imported
