"""Files, local and remote."""
