"""What a run reads: encoder, schema, examples."""
