"""The entry point of containers, which adds to TFX's what the compiled job leaves out.

    python -m pipeline.entrypoint --component_file=PATH
        --json_serialized_invocation_args {{$}} [--beam_arguments_file=PATH]

**The component's file** has the executor, the declared types and, on Kubeflow, the
parameters that are not runtime parameters. Kubeflow Pipelines passes input artifacts
without a type (`backend/src/v2/metadata/client.go`), on which TFX's entry point fails
(tensorflow/tfx#7768). It adds artifacts that no component declares, such as
`executor-logs` of the type `system.Artifact`, and both orchestrators display an output
of the type `system.HTML`. TFX reads each type as the import path of a class. So TFX
gets only the declared artifacts, with the declared types. The file keeps them out of
the job, where the workflow controller repeats a command and its parameters six times
per component.

**Beam's arguments** are in another file, whose name does not depend on its content.
Both orchestrators hash a container's arguments and environment for their cache. If the
arguments were there, a change of the runner would run every component again. Sources:
Kubeflow's `GenerateCacheKey` (`backend/src/v2/cacheutils/cache.go`),
https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching.

**Directory markers**, the empty objects that TensorFlow writes where it creates a
directory, are deleted from the outputs. Kubeflow's launcher downloads them as files.

**A failure** leaves `failure-N.json` next to the outputs, which all attempts of a
component share; N is the number of the attempt. `submit --wait` reads the newest. Bad
settings or data end the container with `exit_status.USAGE`, and without a traceback.
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
from typing import Any, TypedDict

from contracts.errors import UsageError
from contracts.storage import files, uris
from modules import environment, remote_files
from pipeline import exit_status

COMPONENT_FILE = "--component_file="
BEAM_FILE = "--beam_arguments_file="
FAILURE_FILE = "failure-{}.json"
# Set by Kubeflow in components that it retries: 0, 1, …
RETRY_VARIABLE = "KFP_RETRY_INDEX"
_FRAMES, _LINES = 3, 15
MODULE = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"
# Options of TFX's entry point.
EXECUTOR = "--executor_class_path"
MESSAGE = "--json_serialized_invocation_args"
INPUTS_SPEC = "--json_serialized_inputs_spec_args"

logger = logging.getLogger(__name__)


class ComponentFile(TypedDict):
    """The content of a component's file.

    Attributes:
      executor: Import path of the executor's class.
      inputs: The declared inputs, as in the pipeline spec.
      outputs: The declared output artifacts by key.
      parameters: Values of the parameters that are not runtime parameters.
    """

    executor: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    parameters: dict[str, Any]


class BeamFile(TypedDict):
    """The content of the file with Beam's arguments."""

    arguments: list[str]


class Failure(TypedDict):
    """The content of `failure-N.json`.

    Attributes:
      exit_status: Exit status of the container.
      error: The message of a `UsageError`; of another error, the end of its traceback.
        "" if the attempt is running or was killed.
    """

    exit_status: int
    error: str


def with_component(arguments: list[str]) -> list[str]:
    """Returns TFX's arguments, without artifacts that no component declares.

    Args:
      arguments: The command line, with one `--component_file=PATH`. An option of TFX's
        and its value are separate arguments.

    Raises:
      FileNotFoundError: There is no such file.
    """
    component: ComponentFile = _read_staged(_component_file(arguments))
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
    """Replaces the option of Beam's file with the arguments in that file.

    Args:
      arguments: The command line, with at most one `--beam_arguments_file=PATH`.

    Raises:
      FileNotFoundError: There is no such file.
    """
    expanded = []
    for argument in arguments:
        if argument.startswith(BEAM_FILE):
            content: BeamFile = _read_staged(argument.removeprefix(BEAM_FILE))
            expanded += content["arguments"]
        else:
            expanded.append(argument)
    return expanded


def _read_staged(path: str) -> Any:
    content = files.read_record(path)
    if content is None:
        raise FileNotFoundError(
            f"{path} does not exist: copy the job's files with `python -m pipeline "
            "compile --stage`, or start the run with `submit`"
        )
    return content


@contextlib.contextmanager
def completing(directory: str, root: str) -> Iterator[None]:
    """Deletes directory markers after an executor succeeds, or records its failure.

    Args:
      directory: Parent of all output artifacts of the task.
      root: The pipeline root.
    """
    # Without a policy of retries, Argo leaves a template in the variable.
    number = os.environ.get(RETRY_VARIABLE, "")
    attempt = int(number) if number.isdecimal() else 0
    records = [uris.join(directory, FAILURE_FILE.format(i)) for i in range(attempt + 1)]
    record = records[-1]
    with _logging_errors():
        if attempt:  # if it is killed, the error of an earlier attempt is not its error
            _write(record, exit_status.FAILURE, "")
        else:
            files.delete(record)  # of an attempt that was not numbered
    try:
        try:
            yield
        except SystemExit as end:
            if end.code:
                raise
        remote_files.delete_directory_markers(directory, root)
    except BaseException as error:
        with _logging_errors():
            _write(record, exit_status.of(error), _describe(error))
        raise
    if attempt:
        with _logging_errors():
            for path in records:
                files.delete(path)


def _write(record: str, status: int, error: str) -> None:
    failure: Failure = {"exit_status": status, "error": error}
    files.write_record(record, failure)


def _describe(error: BaseException) -> str:
    if isinstance(error, UsageError):
        return str(error)
    # The first frames are in absl and TFX.
    text = "".join(traceback.format_exception(error, limit=-_FRAMES))
    return "\n".join(text.rstrip().splitlines()[-_LINES:])


@contextlib.contextmanager
def _logging_errors() -> Iterator[None]:
    """Logs errors of the record, which must not replace the component's own error."""
    try:
        yield
    except Exception:
        logger.exception("the record of a failure cannot be changed")


def main(arguments: list[str]) -> None:
    """Runs a component.

    Raises:
      SystemExit: It ended with a `UsageError`, which is printed.
    """
    environment.set_up()
    message = json.loads(arguments[arguments.index(MESSAGE) + 1])
    root = pipeline_root(_component_file(arguments))
    artifacts = [
        artifact["uri"]
        for channel in message["outputs"].get("artifacts", {}).values()
        for artifact in channel["artifacts"]
    ]
    # All outputs of a task have one parent directory. A task without outputs still has
    # the ExecutorOutput, which Kubeflow does not keep.
    output = artifacts[0] if artifacts else message["outputs"]["outputFile"]
    try:
        with completing(os.path.dirname(output), root):
            sys.argv[1:] = with_beam_arguments(with_component(arguments))
            runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(exit_status.of(error))


def pipeline_root(component_file: str) -> str:
    """Returns the pipeline root of `ROOT/inputs/components/HASH.json`."""
    return component_file.rsplit("/", 3)[0]


if __name__ == "__main__":
    main(sys.argv[1:])
