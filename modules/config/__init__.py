"""Settings that the modules read: the task and the trainer."""
