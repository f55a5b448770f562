"""The entry point of containers: TFX's own, with what the compiled job leaves out.

Kubeflow Pipelines passes input artifacts without a type (an empty `instanceSchema`,
`backend/src/v2/metadata/client.go`), on which TFX's entry point fails
(tensorflow/tfx#7768). The component's inputs spec, also in the command line, has the
types; they are copied from there. On Vertex AI nothing changes.

Both display an output of the type `system.HTML`, which TFX takes for the import path of
a class.

Beam's arguments are in a file. Both orchestrators hash a container's arguments and
environment for their cache, so with them a change of the runner would run every
component again (Kubeflow's `GenerateCacheKey`, `backend/src/v2/cacheutils/cache.go`;
https://cloud.google.com/vertex-ai/docs/pipelines/configure-caching).

    python -m pipeline.entrypoint --executor_class_path ... {arguments of TFX's}
        --beam_arguments_file=PATH
"""

import json
import runpy
import sys

from modules import environment

BEAM_FILE = "--beam_arguments_file="
HTML_TITLE = "system.HTML"
MODULE = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"

_HTML_SCHEMA = "title: components.HTML\n"
_MESSAGE = "--json_serialized_invocation_args"
_INPUTS_SPEC = "--json_serialized_inputs_spec_args"


def with_types(arguments: list[str]) -> list[str]:
    """Returns TFX's arguments with a type that it can import for every artifact.

    Args:
      arguments: The command line as compiled by `KubeflowV2DagRunner`: an option and
        its value are separate arguments.
    """
    message = json.loads(arguments[arguments.index(_MESSAGE) + 1])
    spec = json.loads(arguments[arguments.index(_INPUTS_SPEC) + 1])
    for name, declared in spec.get("artifacts", {}).items():
        channel = message.get("inputs", {}).get("artifacts", {}).get(name, {})
        for artifact in channel.get("artifacts", []):
            if not any(artifact.get("type", {}).values()):
                artifact["type"] = declared["artifactType"]
    for channel in message.get("outputs", {}).get("artifacts", {}).values():
        for artifact in channel.get("artifacts", []):
            if artifact.get("type", {}).get("schemaTitle") == HTML_TITLE:
                artifact["type"] = {"instanceSchema": _HTML_SCHEMA}
    typed = list(arguments)
    typed[arguments.index(_MESSAGE) + 1] = json.dumps(message)
    return typed


def with_beam_arguments(arguments: list[str]) -> list[str]:
    """Returns the arguments with those in Beam's file instead of the file's name.

    Args:
      arguments: The command line, with at most one `--beam_arguments_file=PATH`.

    Raises:
      FileNotFoundError: There is no such file.
    """
    from modules import files

    expanded = []
    for argument in arguments:
        if not argument.startswith(BEAM_FILE):
            expanded.append(argument)
            continue
        path = argument.removeprefix(BEAM_FILE)
        beam_arguments = files.read_json(path)
        if beam_arguments is None:
            raise FileNotFoundError(
                f"Beam's arguments are not at {path}: copy them and the inputs with "
                "`python -m pipeline compile --stage`, or start the run with `submit`"
            )
        expanded += beam_arguments
    return expanded


if __name__ == "__main__":
    environment.set_up()
    sys.argv[1:] = with_beam_arguments(with_types(sys.argv[1:]))
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
