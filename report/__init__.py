"""The report of a run: its numbers, its page and the model card."""

import modules as modules  # registers the reader of remote files
