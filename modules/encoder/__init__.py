"""The pre-trained encoder: its directory, its model and its weights."""
