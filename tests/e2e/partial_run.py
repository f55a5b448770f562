"""Runs the first components of a pipeline."""

from pathlib import Path

from tfx import v1 as tfx
from tfx.orchestration.pipeline import RunOptions

from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.inputs.resolve import resolve_inputs
from pipeline.pipeline import create_pipeline
from pipeline.platforms import local_platform
from report.run_metadata import MetadataReader


def run_to(component, recipe, settings):
    """Runs a recipe up to a component, with what precedes it.

    Returns a function from a component and the key of an output to its directory.
    """
    config = load_config(recipe, settings)
    paths = OutputPaths.of(config)
    inputs = resolve_inputs(config, paths)
    dag = create_pipeline(config, inputs, local_platform(paths, config.beam))
    options = RunOptions(to_nodes=[component])
    tfx.orchestration.LocalDagRunner().run(dag, run_options=options)
    reader = MetadataReader.of_file(paths.metadata)
    executions = {run.name: execution for run, execution in reader.latest_run()}
    return lambda name, key: Path(reader.outputs(executions[name])[key].uri)
