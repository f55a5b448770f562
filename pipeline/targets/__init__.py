"""The clusters that the pipeline can be compiled for."""

from pipeline.targets.compilation import TARGETS, CompiledJob, compile_job, write_job

__all__ = ["TARGETS", "CompiledJob", "compile_job", "write_job"]
