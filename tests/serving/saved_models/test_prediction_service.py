"""The gRPC services, called by the stubs of tensorflow-serving-api."""

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

from serving.settings import SamplingSettings
from tests import exported as exported_lib
from tests.exported import PAIRS
from tests.serving.conftest import rpc_refused, running

pytestmark = pytest.mark.slow

SPEC = {"name": "half_plus_three"}
HUGE = 4 * 10**15  # values that fit into no memory


def stub(server):
    return prediction_service_pb2_grpc.PredictionServiceStub(server.channel)


def predict(server, spec, inputs, output_filter=()):
    request = predict_pb2.PredictRequest(
        model_spec=spec,
        inputs={name: tf.make_tensor_proto(value) for name, value in inputs.items()},
        output_filter=output_filter,
    )
    return stub(server).Predict(request)


def test_predict_is_as_documented(half_plus_three):
    response = predict(half_plus_three, SPEC, {"x": [1.0, 2.0, 5.0]})
    assert response.outputs["y"].float_val == [3.5, 4.0, 5.5]
    assert tf.make_ndarray(response.outputs["y"]).tolist() == [3.5, 4.0, 5.5]
    assert response.model_spec.version.value == 123
    assert response.model_spec.signature_name == "serving_default"


def test_types_keep_their_values(types):
    inputs = {
        "text": [b"\xff", b"b"],
        "numbers": np.float32([[np.nan, 1], [2, 3]]),
        "count": np.int64([0, 2**62]),
    }
    response = predict(types, {"name": "types"}, inputs)
    outputs = {name: tf.make_ndarray(value) for name, value in response.outputs.items()}
    assert outputs["text"].tolist() == [b"\xff", b"b"]
    np.testing.assert_array_equal(outputs["numbers"], inputs["numbers"])
    assert outputs["count"].tolist() == [0, 2**62]
    assert outputs["is_positive"].tolist() == [False, True]


def test_output_filter_selects_outputs(saved_pairs):
    inputs = {"question": ["the cat"], "answer": ["a dog"]}
    response = predict(
        saved_pairs, {"name": "pairs"}, inputs, ["class", "probabilities"]
    )
    assert response.outputs.keys() == {"class", "probabilities"}


def test_exported_model_predicts_text_and_examples(saved_pairs, exported):
    question, answer = map(list, zip(*PAIRS, strict=True))
    rows = exported_lib.rows_of(exported.task, PAIRS)
    for signature, inputs in (
        ("", {"question": question, "answer": answer}),
        ("serve_examples", {"examples": [exported_lib.serialize(row) for row in rows]}),
    ):
        spec = {"name": "pairs", "signature_name": signature}
        logits = tf.make_ndarray(predict(saved_pairs, spec, inputs).outputs["logits"])
        np.testing.assert_allclose(logits, exported.logits, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "request_type", "api"),
    [
        ("Classify", classification_pb2.ClassificationRequest, "classify"),
        ("Regress", regression_pb2.RegressionRequest, "regress"),
        ("MultiInference", inference_pb2.MultiInferenceRequest, "multi_inference"),
    ],
)
def test_classify_and_regress_are_refused_in_favor_of_predict(
    half_plus_three, method, request_type, api
):
    labels = {"transport": "gRPC", "api": api, "signature": ""}
    labels["code"] = "INVALID_ARGUMENT"
    with rpc_refused(labels["code"], "use the predict method"):
        getattr(stub(half_plus_three), method)(request_type())
    assert half_plus_three.sample("serving_requests_total", **labels) == 1


def test_metadata_has_the_signatures(half_plus_three):
    response = stub(half_plus_three).GetModelMetadata(
        get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=SPEC, metadata_field=["signature_def"]
        )
    )
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    assert "serving_default" in signatures.signature_def


def test_status_has_version_and_state(half_plus_three):
    service = model_service_pb2_grpc.ModelServiceStub(half_plus_three.channel)
    response = service.GetModelStatus(
        get_model_status_pb2.GetModelStatusRequest(model_spec=SPEC)
    )
    (status,) = response.model_version_status
    assert status.version == 123
    assert status.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert status.status.error_code == 0


@pytest.mark.parametrize(
    ("spec", "x", "code", "message"),
    [
        ({"name": "half"}, [1.0], "NOT_FOUND", "model half is not loaded"),
        (
            *({**SPEC, "version": {"value": 5}}, [1.0], "NOT_FOUND"),
            "model half_plus_three version 5 is not loaded",
        ),
        (
            *({**SPEC, "version_label": "a"}, [1.0], "INVALID_ARGUMENT"),
            '"version_label": a; allowed: none',
        ),
        (
            *({**SPEC, "signature_name": "no"}, [1.0], "FAILED_PRECONDITION"),
            '"signature_name": "no" not found; allowed: ',
        ),
        (None, [1.0], "INVALID_ARGUMENT", '"model_spec": missing'),
        (SPEC, None, "INVALID_ARGUMENT", '"inputs": the request has 0'),
        (SPEC, ["a"], "INVALID_ARGUMENT", "has string[1]; allowed: float32[?] in"),
        (SPEC, [[1.0]], "INVALID_ARGUMENT", "the request has float32[1,1]"),
    ],
)
def test_refusal_has_the_code_of_tensorflow_serving(
    half_plus_three, spec, x, code, message
):
    with rpc_refused(code, message):
        predict(half_plus_three, spec, {} if x is None else {"x": x})


@pytest.mark.parametrize("names", [["z"], ["y", "y"]])
def test_unknown_or_repeated_output_is_refused(half_plus_three, names):
    with rpc_refused("INVALID_ARGUMENT", '"output_filter": '):
        predict(half_plus_three, SPEC, {"x": [1.0]}, names)


@pytest.mark.parametrize("fields", [[], ["other"]])
def test_metadata_of_another_field_is_refused(half_plus_three, fields):
    request = get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec=SPEC, metadata_field=fields
    )
    with rpc_refused("INVALID_ARGUMENT", '"metadata_field"; allowed: signature_def'):
        stub(half_plus_three).GetModelMetadata(request)


def test_error_of_many_inputs_names_only_the_first(half_plus_three):
    inputs = {f"{number:06}": tensor_pb2.TensorProto() for number in range(100_000)}
    request = predict_pb2.PredictRequest(model_spec=SPEC, inputs=inputs)
    with rpc_refused("INVALID_ARGUMENT", "the request has 100000: ") as refused:
        stub(half_plus_three).Predict(request)
    assert ", ...; allowed: " in refused.value.details()
    assert len(refused.value.details()) < 300


def test_message_above_the_limit_is_refused(half_plus_three):
    with rpc_refused("RESOURCE_EXHAUSTED", "larger than max"):
        predict(half_plus_three, SPEC, {"x": np.zeros(1 << 20, np.float32)})


def test_compressed_message_is_refused_unread(half_plus_three):
    call = stub(half_plus_three).Predict
    with rpc_refused("UNIMPLEMENTED", "Compression algorithm 'gzip' is disabled"):
        call(predict_pb2.PredictRequest(), compression=grpc.Compression.Gzip)


def test_tensor_with_too_few_values_is_refused(half_plus_three):
    tensor = tf.make_tensor_proto(np.float32([1, 2, 3]))
    tensor.tensor_content = tensor.tensor_content[:4]
    request = predict_pb2.PredictRequest(model_spec=SPEC, inputs={"x": tensor})
    message = "the request has 1 values; allowed: 3, as its shape requires"
    with rpc_refused("INVALID_ARGUMENT", message):
        stub(half_plus_three).Predict(request)


@pytest.mark.parametrize(
    ("name", "dtype", "shape", "message"),
    [
        ("z", "DT_FLOAT", [HUGE], "has 1: 'z'; allowed: those of"),
        ("x", "DT_STRING", [HUGE], f"has string[{HUGE}]; allowed: float32[?]"),
        ("x", "DT_FLOAT", [1, HUGE], f"the request has float32[1,{HUGE}]"),
        ("x", "DT_FLOAT", [HUGE], f"has {HUGE} rows; allowed: at most 4096"),
        ("x", "DT_FLOAT", [2], "has 1 values; allowed: 2, as its shape requires"),
        ("x", "DT_FLOAT", [-1], "the request has float32[-1]; allowed: float32[?]"),
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
    with rpc_refused("INVALID_ARGUMENT", message):
        stub(half_plus_three).Predict(request)


def test_message_that_is_not_utf8_is_refused(half_plus_three, caplog):
    binary = predict_pb2.PredictRequest(model_spec=SPEC).SerializeToString()
    call = half_plus_three.channel.unary_unary(
        "/tensorflow.serving.PredictionService/Predict"
    )
    with rpc_refused("INVALID_ARGUMENT", "The request cannot be parsed"):
        call(binary.replace(b"half", b"\xffalf"))
    assert not caplog.records


def test_tensor_of_an_unknown_type_is_refused(half_plus_three):
    tensor = tensor_pb2.TensorProto(dtype=999, float_val=[1.0])
    request = predict_pb2.PredictRequest(model_spec=SPEC, inputs={"x": tensor})
    with rpc_refused("INVALID_ARGUMENT", '"dtype": 999 is not supported'):
        stub(half_plus_three).Predict(request)


def test_reload_is_unimplemented(half_plus_three):
    service = model_service_pb2_grpc.ModelServiceStub(half_plus_three.channel)
    with rpc_refused("UNIMPLEMENTED"):
        service.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest())


def test_health_service_reports_serving(half_plus_three):
    service = health_pb2_grpc.HealthStub(half_plus_three.channel)
    for name in ("", "tensorflow.serving.PredictionService"):
        response = service.Check(health_pb2.HealthCheckRequest(service=name))
        assert response.status == health_pb2.HealthCheckResponse.SERVING


def test_requests_are_counted_by_the_name_of_their_code(half_plus_three):
    predict(half_plus_three, SPEC, {"x": [1.0]})
    text = half_plus_three.http.get("/metrics").text
    assert (
        'serving_requests_total{api="predict",code="OK",signature="serving_default",'
        'transport="gRPC"}'
    ) in text


def test_texts_and_predictions_are_kept(exported, tmp_path):
    sampling = SamplingSettings(tmp_path, rate=1.0, max_bytes=1 << 20)
    row = {"question": ["the cat"], "answer": ["a dog"]}
    with running(exported.directory, name="pairs", sampling=sampling) as server:
        # What is sampled does not depend on what the client wants back.
        response = predict(server, {"name": "pairs"}, row, ["class"])
    (path,) = tmp_path.iterdir()
    (record,) = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    kept = tf.train.Example.FromString(record).features.feature
    assert kept["question"].bytes_list.value == [b"the cat"]
    assert kept["answer"].bytes_list.value == [b"a dog"]
    predicted = response.outputs["class"].string_val
    assert kept["prediction/class"].bytes_list.value == predicted
    assert len(kept["prediction/probabilities"].float_list.value) == 3
