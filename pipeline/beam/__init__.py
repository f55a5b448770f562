"""Where Beam, which moves the data, does its work."""

from pipeline.beam.arguments import IN_PROCESS, beam_arguments
from pipeline.config.beam import BeamConfig, DataflowConfig

__all__ = ["IN_PROCESS", "BeamConfig", "DataflowConfig", "beam_arguments"]
