"""The clusters that the pipeline can be compiled for."""

from pipeline.targets.compilation import (
    TARGETS,
    CompiledJob,
    cluster_config,
    compile_job,
    new_run_name,
    write_job,
)

__all__ = [
    "TARGETS",
    "CompiledJob",
    "cluster_config",
    "compile_job",
    "new_run_name",
    "write_job",
]
