"""The pipeline from Python; `pipeline` exports the names."""
