"""Reads a user's files and writes them as Examples."""
