"""Compiling the pipeline for an orchestrator, and submitting it there."""
