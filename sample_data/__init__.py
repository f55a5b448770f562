"""Synthetic sentence pairs for paraphrase classification, and their generator."""
