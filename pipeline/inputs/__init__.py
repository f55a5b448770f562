"""The inputs of a run: encoder, schema, examples."""
