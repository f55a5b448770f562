"""The encoder, schema and Examples of a run, and its first batch."""
