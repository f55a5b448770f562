"""TensorFlow Serving's gRPC services, asked by its stock client."""

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests import exported as exported_lib
from tests.exported import PAIRS

SPEC = {"name": "half_plus_three"}
HUGE = 4 * 10**15  # values that no memory holds


def stub(server):
    return prediction_service_pb2_grpc.PredictionServiceStub(server.channel)


def predict(server, spec, inputs, output_filter=()):
    request = predict_pb2.PredictRequest(
        model_spec=spec,
        inputs={name: tf.make_tensor_proto(value) for name, value in inputs.items()},
        output_filter=output_filter,
    )
    return stub(server).Predict(request)


def examples(request, *rows):
    for x in rows:
        example = request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.append(x)
    return request


def test_predict_answers_the_stock_client(half_plus_three):
    answer = predict(half_plus_three, SPEC, {"x": [1.0, 2.0, 5.0]})
    assert answer.outputs["y"].float_val == [3.5, 4.0, 5.5]
    assert tf.make_ndarray(answer.outputs["y"]).tolist() == [3.5, 4.0, 5.5]
    assert answer.model_spec.version.value == 123
    assert answer.model_spec.signature_name == "serving_default"


def test_every_type_goes_both_ways(kinds):
    inputs = {
        "text": [b"\xff", b"b"],
        "numbers": np.float32([[np.nan, 1], [2, 3]]),
        "count": np.int64([0, 2**62]),
    }
    answer = predict(kinds, {"name": "kinds"}, inputs)
    found = {name: tf.make_ndarray(value) for name, value in answer.outputs.items()}
    assert found["text"].tolist() == [b"\xff", b"b"]
    np.testing.assert_array_equal(found["numbers"], inputs["numbers"])
    assert found["count"].tolist() == [0, 2**62]
    assert found["is_positive"].tolist() == [False, True]


def test_output_filter_leaves_out_the_others(pairs):
    inputs = {"question": ["the cat"], "answer": ["a dog"]}
    answer = predict(pairs, {"name": "pairs"}, inputs, ["class", "probabilities"])
    assert answer.outputs.keys() == {"class", "probabilities"}


def test_exported_model_answers_text_and_examples(pairs, exported):
    question, answer = map(list, zip(*PAIRS, strict=True))
    rows = exported_lib.rows_of(exported.task, PAIRS)
    for signature, inputs in (
        ("", {"question": question, "answer": answer}),
        ("serve_examples", {"examples": [exported_lib.serialize(row) for row in rows]}),
    ):
        spec = {"name": "pairs", "signature_name": signature}
        logits = tf.make_ndarray(predict(pairs, spec, inputs).outputs["logits"])
        np.testing.assert_allclose(logits, exported.logits, atol=1e-5)


def test_classify_and_regress_answer_examples(half_plus_three):
    request = classification_pb2.ClassificationRequest(
        model_spec={**SPEC, "signature_name": "tensorflow/serving/classify"}
    )
    answer = stub(half_plus_three).Classify(examples(request, 1.0, 2.0))
    found = [row.classes[0] for row in answer.result.classifications]
    assert [(each.label, each.score) for each in found] == [("y", 3.5), ("y", 4.0)]
    request = regression_pb2.RegressionRequest(
        model_spec={**SPEC, "signature_name": "tensorflow/serving/regress"}
    )
    answer = stub(half_plus_three).Regress(examples(request, 1.0, 2.0))
    assert [each.value for each in answer.result.regressions] == [3.5, 4.0]
    assert answer.model_spec.version.value == 123


def test_metadata_holds_the_signatures(half_plus_three):
    answer = stub(half_plus_three).GetModelMetadata(
        get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=SPEC, metadata_field=["signature_def"]
        )
    )
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(signatures)
    assert "serving_default" in signatures.signature_def


def test_status_tells_state_and_version(half_plus_three):
    service = model_service_pb2_grpc.ModelServiceStub(half_plus_three.channel)
    answer = service.GetModelStatus(
        get_model_status_pb2.GetModelStatusRequest(model_spec=SPEC)
    )
    (status,) = answer.model_version_status
    assert status.version == 123
    assert status.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert status.status.error_code == 0


@pytest.mark.parametrize(
    ("spec", "inputs", "code", "message"),
    [
        (
            *({"name": "half"}, {"x": [1.0]}, "NOT_FOUND"),
            "Servable not found for request: Latest(half)",
        ),
        (
            *({**SPEC, "version": {"value": 5}}, {"x": [1.0]}, "NOT_FOUND"),
            "Servable not found for request: Specific(half_plus_three, 5)",
        ),
        (
            *({**SPEC, "version_label": "a"}, {"x": [1.0]}, "INVALID_ARGUMENT"),
            "Unrecognized servable version label: a",
        ),
        (
            *({**SPEC, "signature_name": "no"}, {"x": [1.0]}, "FAILED_PRECONDITION"),
            'Serving signature key "no" not found.',
        ),
        (None, {"x": [1.0]}, "INVALID_ARGUMENT", "Missing ModelSpec"),
        (SPEC, {"z": [1.0]}, "INVALID_ARGUMENT", "alias not found in signature: z"),
        (SPEC, {}, "INVALID_ARGUMENT", "input size does not match signature: 0!=1"),
        (SPEC, {"x": ["a"]}, "INVALID_ARGUMENT", "to be float but string is provided"),
        (SPEC, {"x": [[1.0]]}, "INVALID_ARGUMENT", "to have shape [?] but shape [1,1]"),
    ],
)
def test_refusal_has_the_code_of_tensorflow_serving(
    half_plus_three, spec, inputs, code, message
):
    with pytest.raises(grpc.RpcError) as refused:
        predict(half_plus_three, spec, inputs)
    assert refused.value.code() is grpc.StatusCode[code]
    assert message in refused.value.details()


def test_names_of_a_request_are_counted_before_they_are_compared(half_plus_three):
    inputs = {f"{number:06}": tensor_pb2.TensorProto() for number in range(100_000)}
    request = predict_pb2.PredictRequest(model_spec=SPEC, inputs=inputs)
    with pytest.raises(grpc.RpcError) as refused:
        stub(half_plus_three).Predict(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    details = refused.value.details()
    assert "input size does not match signature: 100000!=1" in details
    assert "Missing but required: {x}." in details
    assert len(details) < 300


def test_message_above_the_limit_is_refused(half_plus_three):
    with pytest.raises(grpc.RpcError) as refused:
        predict(half_plus_three, SPEC, {"x": np.zeros(1 << 20, np.float32)})
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in refused.value.details()


def test_compressed_message_is_refused_unread(half_plus_three):
    call = stub(half_plus_three).Predict
    with pytest.raises(grpc.RpcError) as refused:
        call(predict_pb2.PredictRequest(), compression=grpc.Compression.Gzip)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "Compression algorithm 'gzip' is disabled" in refused.value.details()


def test_tensor_with_too_few_values_is_refused(half_plus_three):
    tensor = tf.make_tensor_proto(np.float32([1, 2, 3]))
    tensor.tensor_content = tensor.tensor_content[:4]
    request = predict_pb2.PredictRequest(model_spec=SPEC, inputs={"x": tensor})
    with pytest.raises(grpc.RpcError) as refused:
        stub(half_plus_three).Predict(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "tensor parsing error" in refused.value.details()


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "message"),
    [
        ("z", "DT_FLOAT", [HUGE], "alias not found in signature: z"),
        ("x", "DT_STRING", [HUGE], "to be float but string is provided"),
        ("x", "DT_FLOAT", [1, HUGE], f"to have shape [?] but shape [1,{HUGE}] is"),
        ("x", "DT_FLOAT", [HUGE], f"to have {HUGE} values, as its shape says, but 1"),
        ("x", "DT_FLOAT", [2], "to have 2 values, as its shape says, but 1 are"),
        ("x", "DT_FLOAT", [-1], "to have shape [?] but shape [-1] is provided"),
    ],
)
def test_tensor_is_checked_before_it_is_expanded_to_its_shape(
    half_plus_three, name, dtype, shape, message
):
    tensor = tensor_pb2.TensorProto(dtype=dtype, float_val=[1.0])
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    request = predict_pb2.PredictRequest(model_spec=SPEC, inputs={name: tensor})
    assert request.ByteSize() < 100
    with pytest.raises(grpc.RpcError) as refused:
        stub(half_plus_three).Predict(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert message in refused.value.details()


def test_example_whose_name_is_not_utf8_is_refused(half_plus_three, caplog):
    request = classification_pb2.ClassificationRequest(
        model_spec={**SPEC, "signature_name": "tensorflow/serving/classify"}
    )
    binary = examples(request, 1.0).SerializeToString()
    assert binary.count(b"\x01x") == 1
    classify = half_plus_three.channel.unary_unary(
        "/tensorflow.serving.PredictionService/Classify"
    )
    with pytest.raises(grpc.RpcError) as refused:
        classify(binary.replace(b"\x01x", b"\x01\xff"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not caplog.records


def test_tensor_of_an_unknown_type_is_refused(half_plus_three):
    tensor = tensor_pb2.TensorProto(dtype=999, float_val=[1.0])
    request = predict_pb2.PredictRequest(model_spec=SPEC, inputs={"x": tensor})
    with pytest.raises(grpc.RpcError) as refused:
        stub(half_plus_three).Predict(request)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "to be float but type 999 is provided" in refused.value.details()


def test_empty_input_is_refused(half_plus_three):
    request = regression_pb2.RegressionRequest(
        model_spec={**SPEC, "signature_name": "tensorflow/serving/regress"}
    )
    with pytest.raises(grpc.RpcError) as refused:
        stub(half_plus_three).Regress(request)
    assert refused.value.details() == "Input is empty"


def test_what_is_not_implemented_says_so(half_plus_three):
    service = model_service_pb2_grpc.ModelServiceStub(half_plus_three.channel)
    reload = model_management_pb2.ReloadConfigRequest()
    for call, request in (
        (stub(half_plus_three).MultiInference, inference_pb2.MultiInferenceRequest()),
        (service.HandleReloadConfigRequest, reload),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            call(request)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_health_protocol_says_serving(half_plus_three):
    service = health_pb2_grpc.HealthStub(half_plus_three.channel)
    for name in ("", "tensorflow.serving.PredictionService"):
        answer = service.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_requests_are_counted_by_the_name_of_their_code(half_plus_three):
    predict(half_plus_three, SPEC, {"x": [1.0]})
    text = half_plus_three.http.get("/metrics").text
    assert (
        'serving_requests_total{api="predict",code="OK",signature="serving_default",'
        'transport="gRPC"}'
    ) in text
