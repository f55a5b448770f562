"""From text to batches of the model's inputs."""
