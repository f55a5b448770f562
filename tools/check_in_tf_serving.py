"""Repeats a serving check with the older libraries of TensorFlow Serving.

    .venv/bin/python tools/check_in_tf_serving.py MODEL REQUEST

MODEL is a SavedModel, REQUEST the `request.json` next to ServingCheck's blessing.
TensorFlow Serving 2.16 to 2.19 embed tensorflow-text 2.12.1, so tensorflow-cpu and
tensorflow-text 2.12.1 load the model and must predict the same. This test is stricter
than TensorFlow Serving: it also fails on an op that TensorFlow added after 2.12. It
needs Python 3.10 or 3.11 on the PATH, since 2.12 has no wheels for later ones.

Prints the report. The exit status is 0 if the model passes, 1 if it fails, and 2 if the
environment cannot be installed. Later calls reuse the environment. Its lock omits
`tensorflow`, a requirement of tensorflow-text that tensorflow-cpu fulfils:

    uv pip compile --universal --python-version 3.10 --generate-hashes \
      --no-emit-index-url --no-emit-find-links --no-header \
      --no-emit-package tensorflow tools/tf_serving_stack.in \
      --output-file tools/tf_serving_stack.txt
"""

import argparse
import os
import subprocess
import sys
import warnings
from pathlib import Path

# This file runs as a script, so only its own directory is on the path.
REPOSITORY = Path(__file__).resolve().parent.parent

REQUIREMENTS = REPOSITORY / "tools" / "tf_serving_stack.txt"
ENVIRONMENT = REPOSITORY / "build" / "tf_serving_stack"
PYTHONS = ">=3.10,<3.12"


def main() -> int:
    """Installs the environment, repeats the check in it, returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", help="directory of the SavedModel")
    parser.add_argument("request", type=Path, help="request.json of the serving check")
    parser.add_argument(
        "--environment",
        type=Path,
        default=ENVIRONMENT,
        help="directory of the environment [%(default)s]",
    )
    arguments = parser.parse_args()
    problem = install(arguments.environment)
    if problem:
        print(f"cannot install {REQUIREMENTS.name}: {problem}", file=sys.stderr)
        return 2

    # TFX's imports print dozens of warnings.
    warnings.simplefilter("ignore")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    from components.serving_check import ServingRequest, check_model
    from components.serving_check.model_process import ModelProcess

    request = ServingRequest.model_validate_json(arguments.request.read_text())
    python = str(interpreter(arguments.environment))
    with ModelProcess(request.settings.serving, python) as process:
        report = check_model(arguments.model, request, process)
    print(report.model_dump_json(indent=1))
    return 0 if report.blessed else 1


def interpreter(environment: Path) -> Path:
    """Returns the path of an environment's Python."""
    return environment / "bin" / "python"


def install(environment: Path) -> str | None:
    """Installs or completes an environment.

    Args:
      environment: Its directory.

    Returns:
      The error as one line; None if the installation succeeded.
    """
    uv = [sys.executable, "-m", "uv"]
    python = str(interpreter(environment))
    create = ["venv", "--clear", "--no-python-downloads", "--python", PYTHONS]
    commands = [
        [*uv, *create, str(environment)],
        [*uv, "pip", "sync", "--require-hashes", "--python", python, str(REQUIREMENTS)],
    ]
    if interpreter(environment).exists():
        del commands[0]
    for command in commands:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            return " ".join(finished.stderr.split())[-500:]
    return None


if __name__ == "__main__":
    sys.exit(main())
