"""The command `bert-runtime`."""
