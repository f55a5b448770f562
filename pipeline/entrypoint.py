"""The entry point of containers: TFX's own, after adding the types of its inputs.

Kubeflow Pipelines passes input artifacts without a type (an empty `instanceSchema`,
`backend/src/v2/metadata/client.go`), on which TFX's entry point fails
(tensorflow/tfx#7768). The component's inputs spec, also in the command line, has the
types; they are copied from there. On Vertex AI nothing changes.

    python -m pipeline.entrypoint --executor_class_path ... {arguments of TFX's}
"""

import json
import runpy
import sys

from modules import environment

MODULE = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"

_MESSAGE = "--json_serialized_invocation_args"
_INPUTS_SPEC = "--json_serialized_inputs_spec_args"


def with_types(arguments: list[str]) -> list[str]:
    """Returns TFX's arguments with a type for every input artifact.

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
    typed = list(arguments)
    typed[arguments.index(_MESSAGE) + 1] = json.dumps(message)
    return typed


if __name__ == "__main__":
    environment.set_up()
    sys.argv[1:] = with_types(sys.argv[1:])
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
