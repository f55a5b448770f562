"""What our containers run: TFX's entry point, told the types of its inputs.

Kubeflow Pipelines hands a container its input artifacts without a type (an empty
`instanceSchema`, `backend/src/v2/metadata/client.go`), on which TFX's entry point fails
(tensorflow/tfx#7768). The types are in the command line all the same, in the inputs
spec of the component; this puts them where TFX looks. On Vertex it changes nothing.

    python -m pipeline.entrypoint --executor_class_path ... {as TFX's own}
"""

import json
import runpy
import sys
from typing import Any

from modules import environment

MODULE = "tfx.orchestration.kubeflow.v2.container.kubeflow_v2_run_executor"

_MESSAGE = "--json_serialized_invocation_args"
_INPUTS_SPEC = "--json_serialized_inputs_spec_args"


def with_types(arguments: list[str]) -> list[str]:
    """Returns TFX's arguments with a type for every input artifact.

    Args:
      arguments: The command line as `KubeflowV2DagRunner` compiles it: an option and
        its value are arguments of their own.
    """
    message = json.loads(arguments[arguments.index(_MESSAGE) + 1])
    spec = json.loads(arguments[arguments.index(_INPUTS_SPEC) + 1])
    for name, declared in spec.get("artifacts", {}).items():
        given = message.get("inputs", {}).get("artifacts", {}).get(name, {})
        for artifact in given.get("artifacts", []):
            if not _is_typed(artifact):
                artifact["type"] = declared["artifactType"]
    filled = list(arguments)
    filled[arguments.index(_MESSAGE) + 1] = json.dumps(message)
    return filled


def _is_typed(artifact: dict[str, Any]) -> bool:
    return any(artifact.get("type", {}).values())


if __name__ == "__main__":
    environment.set_up()
    sys.argv[1:] = with_types(sys.argv[1:])
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
