"""Running on this machine."""
