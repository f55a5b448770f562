"""Fine-tuning: Orbit's loop, the task, checkpoints, records."""
