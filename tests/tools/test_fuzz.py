"""The fuzzer finds a defect that is planted for it."""

import os
import subprocess
from pathlib import Path

import pytest

from tools.fuzz import targets

ROOT = Path(__file__).parent.parent.parent
# The search for repeated columns fails on any: a header such as `a,a` shows it.
PLANTED = """
import functools
import runpy
import atheris

with atheris.instrument_imports(include=["ingest", "json"]):
    from ingest.rows import delimited
    from tools.fuzz import targets

def find_repeated(names):
    assert len(set(names)) == len(names)
    return ""

def plant(content, target=None):
    delimited.find_repeated = find_repeated
    target(content)

targets.TARGETS["csv"] = functools.partial(plant, target=targets.TARGETS["csv"])
runpy.run_module("tools.fuzz", run_name="__main__", alter_sys=False)
"""


def fuzz_python():
    """Returns the Python with atheris, which `make fuzz` installs."""
    return Path(os.environ.get("FUZZ_PYTHON", ROOT / ".venv-fuzz/bin/python"))


def test_script_fuzzes_every_target():
    (line,) = [
        line
        for line in (ROOT / "tools/fuzz/fuzz.sh").read_text().splitlines()
        if "set -- " in line
    ]
    assert sorted(line.partition("set -- ")[2].split()) == sorted(targets.TARGETS)


@pytest.mark.nightly
def test_planted_defect_is_found_and_its_input_is_kept(tmp_path):
    python = fuzz_python()
    if not python.exists():
        pytest.skip("no .venv-fuzz: `make fuzz` installs atheris")
    arguments = ["csv", str(tmp_path / "csv"), "-max_total_time=240"]
    run = subprocess.run(
        [python, "-c", PLANTED, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode != 0, run.stderr[-2000:]
    assert "AssertionError" in run.stdout
    (crash,) = tmp_path.glob("csv-crash-*")
    # Without the defect, the input is read or refused.
    targets.TARGETS["csv"](crash.read_bytes())
