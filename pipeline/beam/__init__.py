"""Beam's runners: their arguments, job servers and workers."""

from pipeline.beam.arguments import IN_PROCESS, beam_arguments
from pipeline.config.beam import BeamConfig, DataflowConfig

__all__ = ["IN_PROCESS", "BeamConfig", "DataflowConfig", "beam_arguments"]
