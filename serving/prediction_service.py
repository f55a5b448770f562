"""TensorFlow Serving's gRPC services, on the stubs of tensorflow-serving-api."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from serving import examples
from serving.batching import Batcher, Outputs
from serving.errors import RequestError, check_rows, describe_failure, invalid
from serving.limits import RequestLimits, RequestMemory, limit_time
from serving.metrics import Metrics
from serving.models import SERVING_DEFAULT, Model
from serving.signatures import Signature, Tensors, TensorSpec
from serving.versions import Versions

logger = logging.getLogger(__name__)

_SIGNATURE_DEF = "signature_def"
# Where a tensor of a type has its values, as TensorFlow Serving fills it: a client may
# read `outputs["scores"].float_val`.
_FIELDS = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), "int_val"),
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "float": "float_val",
    "double": "double_val",
    "bool": "bool_val",
    "string": "string_val",
}
# Where a client may have put them; other types are sent in `tensor_content`.
_INPUT_FIELDS = {**_FIELDS, "half": "half_val", "bfloat16": "half_val"}

Context: TypeAlias = grpc.aio.ServicerContext


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers with the model that the REST API answers with."""

    def __init__(
        self,
        versions: Versions,
        batcher: Batcher,
        metrics: Metrics,
        memory: RequestMemory,
        *,
        request_seconds: float = RequestLimits.request_seconds,
    ) -> None:
        self._versions = versions
        self._batcher = batcher
        self._metrics = metrics
        self._memory = memory
        self._request_seconds = request_seconds

    async def Predict(  # noqa: N802 (the protocol's name)
        self, request: predict_pb2.PredictRequest, context: Context
    ) -> predict_pb2.PredictResponse:
        """Answers tensors with tensors."""
        async with _answering(self._metrics, "predict", context) as call:
            with _use(self._versions, request) as model:
                name = request.model_spec.signature_name or SERVING_DEFAULT
                if name not in model.signatures:
                    raise RequestError(
                        grpc.StatusCode.FAILED_PRECONDITION,
                        f'Serving signature key "{name}" not found.',
                    )
                call.signature = name
                signature = model.signatures[name]
                wanted = _filter(signature, list(request.output_filter))
                _check(request.inputs, signature, self._batcher.max_rows)
                outputs = await self._run(request, model, signature, _read_tensors)
                return predict_pb2.PredictResponse(
                    model_spec=_spec(request, model, name),
                    outputs={
                        key: _write(outputs[key], signature.outputs[key])
                        for key in wanted
                    },
                )

    async def Classify(  # noqa: N802
        self, request: classification_pb2.ClassificationRequest, context: Context
    ) -> classification_pb2.ClassificationResponse:
        """Answers Examples with classes."""
        async with _answering(self._metrics, "classify", context) as call:
            with _use(self._versions, request) as model:
                signature = examples.classification_signature(
                    model, request.model_spec.signature_name
                )
                call.signature = signature.name
                rows = examples.count(request.input)
                check_rows(rows, self._batcher.max_rows)
                outputs = await self._run(request, model, signature, _read_examples)
                return classification_pb2.ClassificationResponse(
                    model_spec=_spec(request, model, signature.name),
                    result=examples.read_classes(outputs, rows),
                )

    async def Regress(  # noqa: N802
        self, request: regression_pb2.RegressionRequest, context: Context
    ) -> regression_pb2.RegressionResponse:
        """Answers Examples with a value each."""
        async with _answering(self._metrics, "regress", context) as call:
            with _use(self._versions, request) as model:
                signature = examples.regression_signature(
                    model, request.model_spec.signature_name
                )
                call.signature = signature.name
                rows = examples.count(request.input)
                check_rows(rows, self._batcher.max_rows)
                outputs = await self._run(request, model, signature, _read_examples)
                return regression_pb2.RegressionResponse(
                    model_spec=_spec(request, model, signature.name),
                    result=examples.read_values(outputs, rows),
                )

    async def _run(
        self,
        request: Any,
        model: Model,
        signature: Signature,
        read: Callable[[Any], Tensors],
    ) -> Outputs:
        size = request.ByteSize()

        async def predict() -> Outputs:
            inputs = await self._memory.process(size, read, request)
            return await self._batcher.run(model, signature, inputs)

        with self._memory.reserve() as reserve:
            reserve(size)
            return await limit_time(predict(), self._request_seconds)

    async def MultiInference(  # noqa: N802
        self, request: Any, context: Context
    ) -> None:
        """Refuses: ask for one signature at a time."""
        async with _answering(self._metrics, "multi_inference", context):
            raise RequestError(
                grpc.StatusCode.UNIMPLEMENTED, "MultiInference is not implemented"
            )

    async def GetModelMetadata(  # noqa: N802
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: Context
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Tells the signatures."""
        async with _answering(self._metrics, "metadata", context):
            if not request.metadata_field:
                raise invalid(
                    "GetModelMetadataRequest must specify at least one metadata_field"
                )
            for field in request.metadata_field:
                if field != _SIGNATURE_DEF:
                    raise invalid(f"Metadata field {field} is not supported")
            with _use(self._versions, request) as model:
                response = get_model_metadata_pb2.GetModelMetadataResponse(
                    model_spec=_spec(request, model, "")
                )
                signatures = get_model_metadata_pb2.SignatureDefMap(
                    signature_def=model.signature_defs
                )
                response.metadata[_SIGNATURE_DEF].Pack(signatures)
                return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Tells which versions there are."""

    def __init__(self, versions: Versions, metrics: Metrics) -> None:
        self._versions = versions
        self._metrics = metrics

    async def GetModelStatus(  # noqa: N802
        self, request: get_model_status_pb2.GetModelStatusRequest, context: Context
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Tells the state of one version, or of all."""
        async with _answering(self._metrics, "status", context):
            response = get_model_status_pb2.GetModelStatusResponse()
            for version in self._versions.describe(*_target(request)):
                status = response.model_version_status.add(
                    version=version.number, state=version.state.value
                )
                if version.error:
                    status.status.error_code = grpc.StatusCode.INTERNAL.value[0]
                    status.status.error_message = version.error
            return response

    async def HandleReloadConfigRequest(  # noqa: N802
        self, request: Any, context: Context
    ) -> None:
        """Refuses: a server has one model, which it is started with."""
        async with _answering(self._metrics, "reload", context):
            raise RequestError(
                grpc.StatusCode.UNIMPLEMENTED,
                "HandleReloadConfigRequest is not implemented",
            )


@contextlib.asynccontextmanager
async def _answering(metrics: Metrics, api: str, context: Context):  # type: ignore[no-untyped-def]
    """Counts a request, and tells its client why it is refused."""
    with metrics.call("gRPC", api) as call:
        try:
            yield call
            call.code = grpc.StatusCode.OK.name
        except RequestError as error:
            call.code = error.code.name
            await context.abort(error.code, error.message)
        except Exception as error:
            call.code = grpc.StatusCode.INTERNAL.name
            logger.exception("%s over gRPC failed", api)
            await context.abort(grpc.StatusCode.INTERNAL, describe_failure(error))


@contextlib.contextmanager
def _use(versions: Versions, request: Any) -> Iterator[Model]:
    with versions.use(*_target(request)) as model:
        yield model


def _target(request: Any) -> tuple[str, int | None, str | None]:
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
    spec = request.model_spec
    chosen = spec.WhichOneof("version_choice")
    if chosen == "version":
        return spec.name, spec.version.value, None
    return spec.name, None, spec.version_label if chosen else None


def _spec(request: Any, model: Model, signature: str) -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=request.model_spec.name, signature_name=signature)
    spec.version.value = model.version
    return spec


def _filter(signature: Signature, names: list[str]) -> list[str]:
    for name in names:
        if name not in signature.outputs:
            raise invalid(
                f"output tensor alias not found in signature: {name} Outputs expected "
                f"to be in the set {{{','.join(signature.outputs)}}}."
            )
        if names.count(name) > 1:
            raise invalid(f"duplicate output tensor alias: {name}")
    return names or list(signature.outputs)


def _check(
    tensors: Mapping[str, tensor_pb2.TensorProto], signature: Signature, max_rows: int
) -> None:
    """Refuses tensors that do not fit, before memory is allocated for them.

    `tf.make_ndarray` fills a tensor up to the size that its shape says, which costs a
    client a few bytes and the server gigabytes.
    """
    signature.check_names(tensors.keys())
    shapes = {}
    for name, tensor in tensors.items():
        type_name = _type_name(tensor)
        if type_name != signature.inputs[name].type_name:
            raise signature.wrong_type(name, type_name)
        shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
        signature.check_shape(name, shape)
        values, sent = math.prod(shape), _count_values(tensor, type_name)
        if values != sent:
            raise invalid(
                f'tensor parsing error: Expects input "{name}" to have {values} '
                f"values, as its shape says, but {sent} are provided"
            )
        shapes[name] = shape
    check_rows(signature.count_rows(shapes), max_rows)


def _type_name(tensor: tensor_pb2.TensorProto) -> str:
    try:
        return types_pb2.DataType.Name(tensor.dtype).removeprefix("DT_").lower()
    except ValueError:
        return f"type {tensor.dtype}"


def _count_values(tensor: tensor_pb2.TensorProto, type_name: str) -> int:
    if type_name in _INPUT_FIELDS and not tensor.tensor_content:
        return len(getattr(tensor, _INPUT_FIELDS[type_name]))
    return len(tensor.tensor_content) // (tf.as_dtype(tensor.dtype).size or 1)


def _read_tensors(request: predict_pb2.PredictRequest) -> Tensors:
    try:
        return {name: tf.make_ndarray(each) for name, each in request.inputs.items()}
    except (TypeError, ValueError) as error:
        raise invalid(f"tensor parsing error: {error}") from error


def _read_examples(request: Any) -> Tensors:
    return {examples.INPUTS: examples.serialize(request.input)}


def _write(tensor: np.ndarray, spec: TensorSpec) -> tensor_pb2.TensorProto:
    field = _FIELDS.get(spec.type_name)
    if field is None:
        return tf.make_tensor_proto(tensor)
    proto = tensor_pb2.TensorProto(
        dtype=tf.as_dtype(spec.dtype).as_datatype_enum,
        tensor_shape=tf.TensorShape(tensor.shape).as_proto(),
    )
    getattr(proto, field).extend(tensor.ravel().tolist())
    return proto
