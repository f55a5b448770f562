"""The entry point of containers: TFX's own, with what the compiled job leaves out.

    python -m pipeline.entrypoint --component_file=PATH
        --json_serialized_invocation_args {{$}} [--beam_arguments_file=PATH]

**The component's file** has the executor, the declared types and, on Kubeflow, the
parameters that are no runtime parameters. Kubeflow Pipelines passes input artifacts
without a type (`backend/src/v2/metadata/client.go`), on which TFX's entry point fails
(tensorflow/tfx#7768). It adds artifacts that no component declares, as `executor-logs`
of the type `system.Artifact`, and both orchestrators display an output of the type
`system.HTML`: TFX takes each for the import path of a class. So TFX gets the declared
artifacts alone, with the declared types. In the job itself the same would be large: the
workflow controller repeats a command and its parameters six times a component.

**Beam's arguments** are in a file of their own, which is not named by its content. Both
orchestrators hash a container's arguments and environment for their cache, so with them
a change of the runner would run every component again (Kubeflow's `GenerateCacheKey`,
`backend/src/v2/cacheutils/cache.go`;
https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching).

**Directory markers**, the empty objects that TensorFlow writes where it creates a
directory, are deleted from the outputs. Kubeflow's launcher takes them for files.

**A failure** leaves `failure.json` beside the outputs. On Kubeflow `submit --wait`
reads it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from typing import Any

from modules import environment, uris
from pipeline import exit_status

COMPONENT_FILE = "--component_file="
BEAM_FILE = "--beam_arguments_file="
FAILURE_FILE = "failure.json"
MODULE = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"
# Options of TFX's entry point.
EXECUTOR = "--executor_class_path"
MESSAGE = "--json_serialized_invocation_args"
INPUTS_SPEC = "--json_serialized_inputs_spec_args"

_ERROR_LINES = 20

logger = logging.getLogger(__name__)


def with_component(arguments: list[str]) -> list[str]:
    """Returns TFX's arguments, with the declared artifacts alone.

    Args:
      arguments: The command line, with one `--component_file=PATH`. An option of TFX's
        and its value are separate arguments.

    Raises:
      FileNotFoundError: There is no such file.
    """
    component = _read_staged(_component_file(arguments))
    index = arguments.index(MESSAGE)
    message = json.loads(arguments[index + 1])
    inputs, outputs = message.setdefault("inputs", {}), message["outputs"]
    inputs["artifacts"] = _declared(inputs, component["inputs"].get("artifacts", {}))
    outputs["artifacts"] = _declared(outputs, component["outputs"])
    inputs["parameterValues"] = {
        **component["parameters"],
        **inputs.get("parameterValues", {}),
    }
    return [
        *(EXECUTOR, component["executor"]),
        *(MESSAGE, json.dumps(message)),
        *(INPUTS_SPEC, json.dumps(component["inputs"])),
        *(
            argument
            for argument in (*arguments[:index], *arguments[index + 2 :])
            if not argument.startswith(COMPONENT_FILE)
        ),
    ]


def _component_file(arguments: list[str]) -> str:
    (option,) = (option for option in arguments if option.startswith(COMPONENT_FILE))
    return option.removeprefix(COMPONENT_FILE)


def _declared(side: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the declared artifacts of an ExecutorInput's side, with their types."""
    return {
        name: {
            "artifacts": [
                {**artifact, "type": definition["artifactType"]}
                for artifact in side["artifacts"][name]["artifacts"]
            ]
        }
        for name, definition in definitions.items()
        if name in side.get("artifacts", {})
    }


def with_beam_arguments(arguments: list[str]) -> list[str]:
    """Returns the arguments with those in Beam's file instead of the file's name.

    Args:
      arguments: The command line, with at most one `--beam_arguments_file=PATH`.

    Raises:
      FileNotFoundError: There is no such file.
    """
    expanded = []
    for argument in arguments:
        if argument.startswith(BEAM_FILE):
            expanded += _read_staged(argument.removeprefix(BEAM_FILE))["arguments"]
        else:
            expanded.append(argument)
    return expanded


def _read_staged(path: str) -> Any:
    from modules import files

    content = files.read_record(path)
    if content is None:
        raise FileNotFoundError(
            f"{path} does not exist: copy the job's files with `python -m pipeline "
            "compile --stage`, or start the run with `submit`"
        )
    return content


@contextlib.contextmanager
def completing(directory: str, root: str) -> Iterator[None]:
    """Completes what an executor writes, or records why it failed.

    Args:
      directory: Parent of all output artifacts of the task.
      root: The pipeline root.
    """
    from modules import files

    record = uris.join(directory, FAILURE_FILE)
    with _logging_errors():
        files.delete(record)  # of an earlier attempt
    try:
        try:
            yield
        except SystemExit as end:
            if end.code:
                raise
        files.delete_directory_markers(directory, root)
    except BaseException as error:
        code = error.code if isinstance(error, SystemExit) else exit_status.FAILURE
        lines = traceback.format_exc().rstrip().splitlines()[-_ERROR_LINES:]
        failure = {
            "exit_status": code if isinstance(code, int) else exit_status.FAILURE,
            "error": "\n".join(lines),
        }
        with _logging_errors():
            files.write_record(record, failure)
        raise


@contextlib.contextmanager
def _logging_errors() -> Iterator[None]:
    """Logs an error of the record, which must not replace the component's own."""
    try:
        yield
    except Exception:
        logger.exception("%s cannot be changed", FAILURE_FILE)


def main(arguments: list[str]) -> None:
    """Runs a component.

    Args:
      arguments: The command line.
    """
    environment.set_up()
    message = json.loads(arguments[arguments.index(MESSAGE) + 1])
    root = pipeline_root(_component_file(arguments))
    with completing(_task_directory(message["outputs"]), root):
        sys.argv[1:] = with_beam_arguments(with_component(arguments))
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


def pipeline_root(component_file: str) -> str:
    """Returns the pipeline root that a component's file was copied to.

    Args:
      component_file: `ROOT/inputs/components/HASH.json`.
    """
    return component_file.rsplit("/", 3)[0]


def _task_directory(outputs: dict[str, Any]) -> str:
    """Returns the parent of all output artifacts, also of those that nobody declared.

    Without any, it is that of the ExecutorOutput, which on Kubeflow is not kept.
    """
    artifacts = [
        artifact["uri"]
        for channel in outputs.get("artifacts", {}).values()
        for artifact in channel["artifacts"]
    ]
    return os.path.dirname(artifacts[0] if artifacts else outputs["outputFile"])


if __name__ == "__main__":
    main(sys.argv[1:])
