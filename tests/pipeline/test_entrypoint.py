"""The arguments of TFX's entry point, and the files that it leaves."""

import json
from pathlib import Path

import pytest

from pipeline import entrypoint
from pipeline.config.paths import OrchestratorPaths
from pipeline.entrypoint import completing, with_beam_arguments, with_component

RECORDINGS = Path(__file__).parents[1] / "compiled" / "recordings"
MODEL = {"artifactType": {"instanceSchema": "title: tfx.Model\ntype: object\n"}}
HTML = {"artifactType": {"instanceSchema": "title: components.HTML\ntype: object\n"}}


def channel(**artifact):
    return {"artifacts": [artifact]}


@pytest.fixture
def fill(tmp_path):
    """Returns the ExecutorInput that TFX gets, and its other arguments by option."""

    def fill(message, *arguments, inputs=None, outputs=None, parameters=None):
        component = {
            "executor": "some.Executor",
            "inputs": {"artifacts": inputs or {}},
            "outputs": outputs or {},
            "parameters": parameters or {},
        }
        path = tmp_path / "component.json"
        path.write_text(json.dumps(component))
        compiled = [
            *("python.ignored", f"--component_file={path}"),
            *("--json_serialized_invocation_args", json.dumps(message), *arguments),
        ]
        filled = with_component(compiled)
        options = dict(zip(filled[0:6:2], filled[1:6:2], strict=True))
        assert filled[6:] == ["python.ignored", *arguments]
        assert options["--executor_class_path"] == "some.Executor"
        spec = options["--json_serialized_inputs_spec_args"]
        assert json.loads(spec) == component["inputs"]
        return json.loads(options["--json_serialized_invocation_args"])

    return fill


def test_inputs_get_the_declared_type(fill):
    untyped = channel(uri="a", type={"instanceSchema": ""})
    message = {"inputs": {"artifacts": {"model": untyped}}, "outputs": {}}
    filled = fill(message, "--runner=DirectRunner", inputs={"model": MODEL})
    (artifact,) = filled["inputs"]["artifacts"]["model"]["artifacts"]
    assert artifact == {"uri": "a", "type": MODEL["artifactType"]}


def test_page_gets_the_class_that_tfx_imports(fill):
    page = channel(uri="a", type={"schemaTitle": "system.HTML"})
    filled = fill(
        {"outputs": {"artifacts": {"report": page}}}, outputs={"report": HTML}
    )
    (artifact,) = filled["outputs"]["artifacts"]["report"]["artifacts"]
    assert artifact["type"] == HTML["artifactType"]


@pytest.mark.parametrize("name", ["executor-logs", "executor-logs-0", "of-2027"])
def test_artifacts_that_no_component_declares_are_left_out(fill, name):
    other = channel(uri="b", type={"schemaTitle": "system.Artifact"}, more=[1])
    message = {
        side: {"artifacts": {"model": channel(uri="a"), name: other}, "more": {}}
        for side in ("inputs", "outputs")
    }
    filled = fill(message, inputs={"model": MODEL}, outputs={"model": MODEL})
    for side in ("inputs", "outputs"):
        assert list(filled[side]["artifacts"]) == ["model"]


def test_parameters_are_those_of_the_file_and_of_the_run(fill):
    message = {"inputs": {"parameterValues": {"epochs": 2.0}}, "outputs": {}}
    filled = fill(message, parameters={"settings": "{}", "format": 6})
    assert filled["inputs"] == {
        "artifacts": {},
        "parameterValues": {"settings": "{}", "format": 6, "epochs": 2.0},
    }


def test_component_without_inputs_and_outputs_has_nothing_to_fill(fill):
    filled = fill({"outputs": {"outputFile": "/gcs/a"}})
    assert filled["outputs"] == {"outputFile": "/gcs/a", "artifacts": {}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", sorted(RECORDINGS.glob("*.json")), ids=lambda p: p.stem
)
def test_recorded_input_of_each_component_is_one_that_tfx_parses(path, tmp_path):
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_entrypoint_utils

    recording = json.loads(path.read_text())
    spec = recording["component_spec"]
    outputs = dict(spec["outputDefinitions"]["artifacts"])
    del outputs["executor-logs"]
    if path.stem == "Report":
        outputs["report"] = HTML
    file = tmp_path / "component.json"
    content = {
        "executor": "E",
        "inputs": spec.get("inputDefinitions", {}),
        "outputs": outputs,
        "parameters": {},
    }
    file.write_text(json.dumps(content))

    def parse(message):
        proto = json_format.Parse(
            message, pipeline_spec_pb2.ExecutorInput(), ignore_unknown_fields=True
        )
        parsed = kubeflow_v2_entrypoint_utils.parse_raw_artifact_dict
        return parsed(proto.inputs.artifacts), parsed(proto.outputs.artifacts)

    message = json.dumps(recording["executor_input"])
    with pytest.raises((AttributeError, ImportError)):
        parse(message)
    filled = with_component(
        [f"--component_file={file}", "--json_serialized_invocation_args", message]
    )
    _, written = parse(filled[3])
    assert written.keys() == outputs.keys()


def test_missing_file_of_a_component_is_an_error_that_says_what_to_do(tmp_path):
    compiled = ["--json_serialized_invocation_args", "{}"]
    with pytest.raises(FileNotFoundError, match="compile --stage"):
        with_component([f"--component_file={tmp_path}/a.json", *compiled])


def test_arguments_of_beam_are_read_from_their_file(tmp_path):
    file = tmp_path / "beam.json"
    content = {"format": 1, "arguments": ["--runner=FlinkRunner", "--parallelism=2"]}
    file.write_text(json.dumps(content))
    compiled = ["--executor_class_path", "E", f"--beam_arguments_file={file}"]
    assert with_beam_arguments(compiled) == [
        *("--executor_class_path", "E"),
        *("--runner=FlinkRunner", "--parallelism=2"),
    ]
    assert with_beam_arguments(compiled[:2]) == compiled[:2]


def test_missing_arguments_of_beam_are_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="compile --stage"):
        with_beam_arguments([f"--beam_arguments_file={tmp_path}/beam.json"])


def test_failure_leaves_its_exit_status_and_its_error(tmp_path):
    with pytest.raises(ValueError, match="no fish"), completing(str(tmp_path), "/root"):
        raise ValueError("no fish")
    failure = json.loads((tmp_path / entrypoint.FAILURE_FILE).read_text())
    assert failure["exit_status"] == 1
    assert failure["error"].splitlines()[-1] == "ValueError: no fish"
    with pytest.raises(SystemExit), completing(str(tmp_path), "/root"):
        raise SystemExit(3)
    failure = json.loads((tmp_path / entrypoint.FAILURE_FILE).read_text())
    assert failure["exit_status"] == 3


def test_failure_that_cannot_be_recorded_hides_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ValueError, match="no fish"),
        completing(str(tmp_path / "file"), "/root"),
    ):
        raise ValueError("no fish")


def test_pipeline_root_is_that_of_the_component_file():
    paths = OrchestratorPaths("gs://bucket/folder", "name")
    path = paths.staged("components", "hash.json")
    assert entrypoint.pipeline_root(path) == "gs://bucket/folder"


def test_next_attempt_deletes_the_failure(tmp_path):
    (tmp_path / entrypoint.FAILURE_FILE).write_text("{}")
    with completing(str(tmp_path), "/root"):
        assert list(tmp_path.iterdir()) == []
        raise SystemExit(0)  # as absl ends a program
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_success_leaves_no_marker_of_a_directory(bucket, object_store):
    import tensorflow as tf

    task = f"{bucket}/root/run/Task/1"
    object_store.write(f"{bucket}/root/")  # of whoever made the root
    with completing(task, f"{bucket}/root"):
        tf.io.gfile.makedirs(f"{task}/model/empty")
        tf.saved_model.save(tf.Module(), f"{task}/model/saved")
        assert object_store.keys(f"{bucket}/root/run/Task/1/model/saved/")
        assert f"{task}/model/empty/".removeprefix(f"{bucket}/") in object_store.keys(
            task
        )
    keys = object_store.keys(bucket)
    assert [key for key in keys if key.endswith("/")] == ["root/"]
    assert "root/run/Task/1/model/saved/saved_model.pb" in keys
