"""The report of a run: its numbers, its page and the model card."""
