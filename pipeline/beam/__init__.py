"""Beam's runners: their arguments, job servers and workers."""

from pipeline.beam.arguments import IN_PROCESS, beam_arguments

__all__ = ["IN_PROCESS", "beam_arguments"]
