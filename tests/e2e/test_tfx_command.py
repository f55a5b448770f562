"""`tfx pipeline create` and `tfx run create` on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.paths import REPOSITORY
from tests import tiny

pytestmark = pytest.mark.e2e


def test_tfx_command_creates_and_runs_the_pipeline(tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),  # where the command keeps its pipelines
        "BERT_PIPELINE_CONFIG": str(recipe),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    environment.pop("TF_USE_LEGACY_KERAS", None)  # these tests' own, not the user's

    def tfx(*arguments):
        return subprocess.run(
            ["tfx", *arguments, "--engine=local"],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    created = tfx("pipeline", "create", "--pipeline_path=local_runner.py")
    assert created.returncode == 0, created.stdout + created.stderr
    assert 'Pipeline "tiny" created successfully' in created.stdout
    ran = tfx("run", "create", "--pipeline_name=tiny")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    served = tmp_path / "output" / "serving" / "tiny"
    assert [path for path in served.glob("*") if path.name.isdigit()]
