"""The inputs of a run: encoder, schema, first batch."""
