"""The command line, a file for each group of commands.

A command imports in its function what is slow to import: TensorFlow, TFX, Beam, ML
Metadata, SciPy, gRPC. `--help` and the completion of the shell must not wait for them.
"""
