"""Beam's runners: their arguments, job servers and workers."""

from pipeline.beam.arguments import beam_arguments

__all__ = ["beam_arguments"]
