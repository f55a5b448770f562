"""A pushed model in the formats of other runtimes."""
