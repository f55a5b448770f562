"""How the parts are wired and started: settings, DAG, command line, data source."""

from modules import environment as environment  # before anything imports TensorFlow
