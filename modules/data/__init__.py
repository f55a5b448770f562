"""From text to batches of the encoder's inputs."""
