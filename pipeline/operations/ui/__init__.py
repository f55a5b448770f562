"""The web view of runs."""
