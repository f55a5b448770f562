"""`local_runner.py` checks before its work what `run` checks."""

import subprocess
import sys

import pytest

import local_runner
from contracts.errors import UsageError
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.local.run import hold_output
from tests import tiny

PRINTS = """
import local_runner
def load_config(_):
    for _ in range(2):
        print("line", flush=True)
    raise SystemExit("continued")
local_runner.load_config = load_config
local_runner.run()
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    def recipe(**settings):
        path = tiny.write_config(tmp_path / "recipe.yaml", **settings)
        monkeypatch.setenv("BERT_PIPELINE_CONFIG", str(path))

    return recipe


def test_tf_config_of_another_job_is_refused(recipe, monkeypatch, tmp_path):
    recipe()
    monkeypatch.setenv("TF_CONFIG", "{oops")
    with pytest.raises(UsageError, match=r"^TF_CONFIG: '{oops'"):
        local_runner.run()
    assert not (tmp_path / "output").exists()


def test_output_that_a_run_uses_is_refused(recipe, tmp_path):
    recipe()
    paths = OutputPaths.at(tmp_path / "output", "tiny")
    with (
        hold_output(paths, "run that"),
        pytest.raises(UsageError, match=r"is in use by process .*, run that"),
    ):
        local_runner.run()


def test_run_continues_if_nobody_reads_its_output():
    """As in `python local_runner.py | head`."""
    program = [sys.executable, "-c", PRINTS]
    process = subprocess.Popen(
        program, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.wait()
    process.stderr.close()
    assert "standard output is lost: Broken pipe; the run continues" in errors
    assert errors.endswith("continued\n")
