"""The records of a run: written by its components, read by all that show it."""
