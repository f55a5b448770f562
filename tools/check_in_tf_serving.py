"""Repeats a serving check in the older stack that TensorFlow Serving is built from.

    .venv/bin/python tools/check_in_tf_serving.py MODEL REQUEST

MODEL is a SavedModel, REQUEST the `request.json` beside the blessing of ServingCheck.
TensorFlow Serving 2.16 to 2.19 have the tensorflow-text 2.12.1 in them, so the model is
loaded and asked by tensorflow-cpu and tensorflow-text 2.12.1, and must give the same
predictions. It is the harder test: an op that came to TensorFlow itself after 2.12
fails here, though TensorFlow Serving has it. It wants Python 3.10 or 3.11 on the PATH,
if this one is newer: 2.12 has no wheels for a later one.

Prints the report; the status is 0 if the model passes, 1 if it does not, and 2 if the
environment cannot be made. The environment stays for the next call. It is locked by

    uv pip compile --universal --python-version 3.10 --generate-hashes \
      --no-emit-index-url --no-emit-find-links --no-header \
      --no-emit-package tensorflow tools/tf_serving_stack.in \
      --output-file tools/tf_serving_stack.txt

without `tensorflow`, which tensorflow-text asks for and tensorflow-cpu is.
"""

import argparse
import os
import subprocess
import sys
import warnings
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
REQUIREMENTS = REPOSITORY / "tools" / "tf_serving_stack.txt"
ENVIRONMENT = REPOSITORY / "build" / "tf_serving_stack"
PYTHONS = ">=3.10,<3.12"


def main() -> int:
    """Makes the environment, repeats the check in it, and returns the status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", help="directory of the SavedModel")
    parser.add_argument("request", type=Path, help="request.json of the serving check")
    parser.add_argument(
        "--environment",
        type=Path,
        default=ENVIRONMENT,
        help="directory of the environment, made where it is missing [%(default)s]",
    )
    arguments = parser.parse_args()
    problem = install(arguments.environment)
    if problem:
        print(f"cannot install {REQUIREMENTS.name}: {problem}", file=sys.stderr)
        return 2

    # TFX's imports warn by the dozen, of what is no concern here.
    warnings.simplefilter("ignore")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    from components.serving_check import ServingRequest, check_model

    report = check_model(
        arguments.model,
        ServingRequest.model_validate_json(arguments.request.read_text()),
        python=str(interpreter(arguments.environment)),
    )
    print(report.model_dump_json(indent=1))
    return 0 if report.blessed else 1


def interpreter(environment: Path) -> Path:
    """Returns the path of an environment's Python."""
    return environment / "bin" / "python"


def install(environment: Path) -> str | None:
    """Makes or completes the environment.

    Args:
      environment: Its directory.

    Returns:
      Why it cannot be made, in a line; None where it could.
    """
    uv = [sys.executable, "-m", "uv"]
    python = str(interpreter(environment))
    make = ["venv", "--clear", "--no-python-downloads", "--python", PYTHONS]
    commands = [
        [*uv, *make, str(environment)],
        [*uv, "pip", "sync", "--require-hashes", "--python", python, str(REQUIREMENTS)],
    ]
    if interpreter(environment).exists():
        del commands[0]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return " ".join(done.stderr.split())[-500:]
    return None


if __name__ == "__main__":
    sys.exit(main())
