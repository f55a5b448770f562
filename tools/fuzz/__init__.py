"""Fuzzing of the readers of files and of the server's parsers, with atheris."""
