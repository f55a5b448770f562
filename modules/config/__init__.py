"""The settings that the modules read: the task, the Trainer."""
