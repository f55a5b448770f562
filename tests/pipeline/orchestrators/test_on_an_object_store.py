"""The least that must work on gs:// on every stack: stage, one component, push."""

import contextlib
import json
import sys

from contracts.storage import files
from contracts.versions import served_versions
from pipeline import entrypoint
from pipeline.config.recipe import load_config
from pipeline.orchestrators import compilation, staging
from tests import tiny
from tests.compiled import executor_input
from tests.compiled.backends import Kubeflow


def test_job_is_staged_and_a_component_runs_and_a_model_is_pushed(
    bucket, object_store, tmp_path, monkeypatch
):
    root = f"{bucket}/bert"
    recipe = tiny.write_config(
        tmp_path / "recipe.yaml", kubeflow={"image": "i:1", "pipeline_root": root}
    )
    job = compilation.compile_job(load_config(recipe), "kubeflow")
    staging.copy(job.staged)

    component = job.spec["components"]["ImportSchemaGen"]
    message = {
        "inputs": {},
        "outputs": Kubeflow().outputs(component, f"{root}/tiny/run/ImportSchemaGen/1"),
    }
    message["outputs"]["outputFile"] = str(tmp_path / "output.json")
    executors = job.spec["deploymentSpec"]["executors"]
    container = executors["ImportSchemaGen_executor"]["container"]
    # In this process, which has imported TFX.
    monkeypatch.setattr(sys, "argv", container["command"][:1])
    with contextlib.suppress(SystemExit):  # as absl ends a program
        entrypoint.main(executor_input.command_line(container["args"], message))
    assert json.loads((tmp_path / "output.json").read_text())["artifacts"]
    schema = object_store.read(f"{root}/tiny/run/ImportSchemaGen/1/schema/schema.pbtxt")
    (staged,) = (path for _, path in job.staged.copies if path.endswith("schema.pbtxt"))
    assert schema == object_store.read(staged)

    for name in ("saved_model.pb", "variables/variables.index"):
        files.write(f"{bucket}/model/{name}", name)
    served_versions.push(f"{bucket}/model", f"{root}/serving/tiny", "1")
    assert served_versions.find_newest(f"{root}/serving/tiny") == "1"
    assert object_store.read(f"{root}/serving/tiny/1/saved_model.pb")
    keys = object_store.keys(bucket)
    assert [key for key in keys if not {"", ".", ".."}.isdisjoint(key.split("/"))] == []
