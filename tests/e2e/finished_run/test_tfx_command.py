"""The `tfx` command: it runs the pipeline here, and compiles it for Vertex."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tfx.tools.cli.cli_main import cli_group
from tfx.tools.cli.handler.local_handler import LocalHandler

from pipeline.config.paths import REPOSITORY
from tests import tiny

pytestmark = pytest.mark.e2e


def test_tfx_command_creates_and_runs_the_pipeline(finished, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))  # the command stores its pipelines there
    monkeypatch.setenv("BERT_PIPELINE_CONFIG", str(finished.recipe))
    monkeypatch.chdir(REPOSITORY)
    shutil.rmtree(finished.run.pushed)

    # All in this process, which has imported TFX already: `run create` starts another.
    def run_script(self, command, env=None):
        python, script = command
        assert (python, env) == (sys.executable, None)
        runpy.run_path(script, run_name="__main__")

    monkeypatch.setattr(LocalHandler, "_subprocess_call", run_script)

    def tfx(*arguments):
        result = CliRunner().invoke(cli_group, [*arguments, "--engine=local"])
        assert result.exit_code == 0, result.output
        return result.output

    created = tfx("pipeline", "create", "--pipeline_path=local_runner.py")
    assert 'Pipeline "tiny" created successfully' in created
    tfx("run", "create", "--pipeline_name=tiny")
    # The same pipeline as the command line's: its results are in the cache.
    assert finished.executed() == {"AtomicPusher", "Report"}
    pushed = finished.output("AtomicPusher", "pushed_model").custom_properties
    served = Path(pushed["pushed_destination"].string_value)
    assert (served / "saved_model.pb").is_file()


@pytest.mark.nightly
def test_tfx_command_compiles_the_pipeline_for_vertex(tmp_path):
    cluster = {
        "image": "registry/bert:1",
        "pipeline_root": "gs://bucket/bert",
        "project": "project",
        "region": "europe-west4",
        "retries": 4,
    }
    recipe = tiny.write_config(tmp_path / "recipe.yaml", vertex=cluster)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),  # the command stores its pipelines there
        "BERT_PIPELINE_CONFIG": str(recipe),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    environment.pop("TF_USE_LEGACY_KERAS", None)  # set by these tests, not by a user
    created = subprocess.run(
        [
            "tfx",
            "pipeline",
            "create",
            "--engine=vertex",
            "--pipeline_path=vertex_runner.py",
        ],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert created.returncode == 0, created.stdout + created.stderr
    assert 'Pipeline "tiny" created successfully' in created.stdout
    (package,) = tmp_path.glob("tfx/vertex/tiny/pipeline.json")
    job = json.loads(package.read_text())
    trainer = job["pipelineSpec"]["root"]["dag"]["tasks"]["Trainer"]
    assert trainer["retryPolicy"]["maxRetryCount"] == 4
    assert job["runtimeConfig"]["gcsOutputDirectory"] == "gs://bucket/bert"
