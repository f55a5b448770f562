"""Reads a user's files and writes them as Examples."""

import modules as modules  # registers the reader of remote files
