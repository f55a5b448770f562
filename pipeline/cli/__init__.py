"""The command line, a file for each group of commands.

Slow imports (TensorFlow, TFX, Beam, ML Metadata, SciPy, gRPC) are inside the functions
of the commands. `--help` and shell completion must not wait for them.
"""
