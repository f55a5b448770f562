"""The arguments of TFX's entry point, and the files that it leaves."""

import json
import runpy
from pathlib import Path

import pytest

from contracts.errors import DataRefusedError
from contracts.storage import files
from pipeline import entrypoint, exit_status
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


@pytest.fixture
def fail(tmp_path, monkeypatch):
    """Returns the record of an attempt that raises an error in its last frame."""

    def calls(error, depth):
        if depth:
            calls(error, depth - 1)
        raise error

    def fail(error, attempt=None):
        if attempt is not None:
            monkeypatch.setenv(entrypoint.RETRY_VARIABLE, str(attempt))
        with pytest.raises(type(error)), completing(str(tmp_path), "/root"):
            calls(error, 9)
        file = tmp_path / entrypoint.FAILURE_FILE.format(attempt or 0)
        return json.loads(file.read_text())

    return fail


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_failure_leaves_its_exit_status_and_the_last_frames_of_its_error(fail):
    failure = fail(ValueError("no fish"))
    assert failure["exit_status"] == 1
    assert failure["error"].splitlines()[-1] == "ValueError: no fish"
    assert failure["error"].count(", in calls") == 3
    assert fail(SystemExit(3))["exit_status"] == 3


def test_refused_data_leave_only_the_message_and_the_status_of_bad_usage(fail):
    refused = DataRefusedError(
        got="the data are refused:\n  " + "\n  ".join("a" * 40), name="E-data-refused"
    )
    failure = fail(refused)
    assert failure["exit_status"] == exit_status.USAGE
    assert failure["error"] == str(refused)


def test_refusal_ends_the_container_with_its_status_and_message(
    tmp_path, monkeypatch, capsys
):
    refused = DataRefusedError(got="no fish", name="E-data-refused")

    def run_module(*_, **__):
        raise refused

    monkeypatch.setattr(runpy, "run_module", run_module)
    monkeypatch.setattr("sys.argv", ["entrypoint"])
    file = tmp_path / "root" / "inputs" / "components" / "hash.json"
    files.write_json(
        str(file), {"executor": "E", "inputs": {}, "outputs": {}, "parameters": {}}
    )
    message = {"outputs": {"outputFile": str(tmp_path / "task" / "output.json")}}
    with pytest.raises(SystemExit) as end:
        entrypoint.main(
            [
                f"{entrypoint.COMPONENT_FILE}{file}",
                *(entrypoint.MESSAGE, json.dumps(message)),
            ]
        )
    assert end.value.code == exit_status.USAGE
    assert capsys.readouterr().err == f"error: {refused}\n"
    assert names(tmp_path / "task") == ["failure-0.json"]


def test_attempts_in_one_directory_keep_their_failures(tmp_path, fail):
    for attempt, error in enumerate([ValueError("no fish"), ValueError("no bird")]):
        assert str(error) in fail(error, attempt)["error"]
    assert names(tmp_path) == ["failure-0.json", "failure-1.json"]


def test_attempt_that_is_killed_has_a_record_without_an_error(
    tmp_path, fail, monkeypatch
):
    fail(ValueError("no fish"), 0)
    monkeypatch.setenv(entrypoint.RETRY_VARIABLE, "1")
    with completing(str(tmp_path), "/root"):
        record = json.loads((tmp_path / "failure-1.json").read_text())
    assert (record["exit_status"], record["error"]) == (1, "")


def test_attempt_that_succeeds_deletes_the_failures_before_it(
    tmp_path, fail, monkeypatch
):
    fail(ValueError("no fish"), 0)
    fail(ValueError("no fish"), 1)
    monkeypatch.setenv(entrypoint.RETRY_VARIABLE, "2")
    with completing(str(tmp_path), "/root"):
        pass
    assert names(tmp_path) == []


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


def test_attempt_that_is_not_numbered_deletes_the_failure(tmp_path, fail):
    fail(ValueError("no fish"))
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
