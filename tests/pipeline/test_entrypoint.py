import json

import pytest

from components.artifacts import HTML
from pipeline.entrypoint import with_beam_arguments, with_types

DECLARED = {"instanceSchema": "title: tfx.Model\n"}


def arguments(*artifacts):
    message = {"inputs": {"artifacts": {"model": {"artifacts": list(artifacts)}}}}
    spec = {"artifacts": {"model": {"artifactType": DECLARED}}}
    return [
        *("--executor_class_path", "some.Executor"),
        *("--json_serialized_invocation_args", json.dumps(message)),
        *("--json_serialized_inputs_spec_args", json.dumps(spec)),
        "--runner=DirectRunner",
    ]


def types(filled):
    message = json.loads(filled[3])
    return [a["type"] for a in message["inputs"]["artifacts"]["model"]["artifacts"]]


def test_inputs_without_a_type_get_the_declared_one():
    untyped = {"uri": "a", "type": {"instanceSchema": ""}}
    compiled = arguments(untyped, {"uri": "b"})
    filled = with_types(compiled)
    assert types(filled) == [DECLARED, DECLARED]
    assert filled[:3] == compiled[:3]
    assert filled[4:] == compiled[4:]


def test_type_of_a_typed_input_stays():
    titled = {"uri": "a", "type": {"schemaTitle": "tfx.Examples"}}
    assert types(with_types(arguments(titled))) == [{"schemaTitle": "tfx.Examples"}]


def test_page_gets_the_class_that_tfx_imports():
    page = {"uri": "a", "type": {"schemaTitle": "system.HTML"}}
    message = json.dumps({"outputs": {"artifacts": {"report": {"artifacts": [page]}}}})
    compiled = ["--json_serialized_invocation_args", message]
    compiled += ["--json_serialized_inputs_spec_args", "{}"]
    (typed,) = json.loads(with_types(compiled)[1])["outputs"]["artifacts"]["report"][
        "artifacts"
    ]
    assert typed["type"] == {"instanceSchema": f"title: {HTML.TYPE_NAME}\n"}


def test_component_without_inputs_has_nothing_to_fill():
    message = json.dumps({"inputs": {"parameterValues": {"x": 1}}})
    compiled = ["--json_serialized_invocation_args", message]
    compiled += ["--json_serialized_inputs_spec_args", json.dumps({"parameters": {}})]
    assert json.loads(with_types(compiled)[1]) == json.loads(message)


def test_arguments_of_beam_are_read_from_their_file(tmp_path):
    file = tmp_path / "beam.json"
    file.write_text('["--runner=FlinkRunner", "--parallelism=2"]')
    compiled = ["--executor_class_path", "E", f"--beam_arguments_file={file}"]
    assert with_beam_arguments(compiled) == [
        *("--executor_class_path", "E"),
        *("--runner=FlinkRunner", "--parallelism=2"),
    ]
    assert with_beam_arguments(compiled[:2]) == compiled[:2]


def test_missing_arguments_of_beam_are_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="compile --stage"):
        with_beam_arguments([f"--beam_arguments_file={tmp_path}/beam.json"])
