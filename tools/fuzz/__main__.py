"""Fuzzes a target: `python -m tools.fuzz TARGET CORPUS [options of libFuzzer]`.

`make fuzz` runs it for every target in an environment with atheris. An input that fails
is written next to the corpus, and its name begins with `crash-`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris  # not in the locks: `make fuzz` installs it


def main() -> None:
    """Fuzzes the target until a failure, or until libFuzzer's limits end it."""
    name, corpus, *options = sys.argv[1:]
    directory = Path(corpus)
    directory.mkdir(parents=True, exist_ok=True)
    with atheris.instrument_imports(include=["ingest", "serving", "json"]):
        from tools.fuzz import targets

        for number, seed in enumerate(targets.seeds(name)):
            targets.TARGETS[name](seed)  # which may import modules
            (directory / f"seed-{number}").write_bytes(seed)
    artifacts = f"-artifact_prefix={directory.parent}/{directory.name}-"
    arguments = [sys.argv[0], str(directory), artifacts, *options]
    atheris.Setup(arguments, targets.TARGETS[name])
    atheris.Fuzz()


main()
