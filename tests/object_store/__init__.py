"""A Google Cloud Storage on this machine."""
