"""TensorFlow Serving's gRPC services: predictions, model metadata and model status."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from serving.batching import Outputs
from serving.errors import (
    Code,
    RequestError,
    describe_failure,
    invalid,
    only_predict,
)
from serving.limits import limit_time
from serving.loaded_versions import LoadedVersions
from serving.model_facts import ModelFacts, ServedModel
from serving.monitoring import GRPC, Call, Metrics
from serving.saved_models import tensor_protos
from serving.saved_models.signature_defs import SavedModelFacts
from serving.server import Shared
from serving.signatures import SIGNATURE_DEF, Signature

logger = logging.getLogger(__name__)

Context: TypeAlias = grpc.aio.ServicerContext
_STATUS = {status.value[0]: status for status in grpc.StatusCode}


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predicts with the same versions and batches as the REST API."""

    def __init__(self, shared: Shared) -> None:
        self._versions = shared.versions
        self._batcher = shared.batcher
        self._metrics = shared.metrics
        self._memory = shared.memory
        self._observers = shared.observers

    async def Predict(  # noqa: N802 (the protocol's name)
        self, request: predict_pb2.PredictRequest, context: Context
    ) -> predict_pb2.PredictResponse:
        """Runs a signature."""
        async with _responding(self._metrics, "predict", context) as call:
            with self._versions.use(*_target(request)) as model:
                signature = model.find_signature(request.model_spec.signature_name)
                call.signature = signature.name
                names = list(request.output_filter) or list(signature.outputs)
                if (
                    len(set(names)) < len(names)
                    or set(names) - signature.outputs.keys()
                ):
                    raise invalid(
                        "output_filter",
                        ", ".join(names),
                        "different outputs of the signature: "
                        f"{', '.join(signature.outputs)}",
                    )
                tensor_protos.check(request.inputs, signature, self._batcher.max_rows)
                outputs = await self._run(request, model, signature)
                return predict_pb2.PredictResponse(
                    model_spec=_model_spec(request, model, signature.name),
                    outputs={
                        name: tensor_protos.write(
                            outputs[name], signature.outputs[name]
                        )
                        for name in names
                    },
                )

    async def _run(
        self,
        request: predict_pb2.PredictRequest,
        model: ServedModel,
        signature: Signature,
    ) -> Outputs:
        size = request.ByteSize()

        async def predict() -> Outputs:
            inputs = await self._memory.process(
                size, tensor_protos.read, request.inputs
            )
            outputs = await self._batcher.run(model, signature, inputs)
            for observer in self._observers:
                observer.offer(model, signature, inputs, outputs)
            return outputs

        with self._memory.reserve() as reserve:
            reserve(size)
            return await limit_time(predict(), self._memory.limits.request_seconds)

    async def Classify(self, request: Any, context: Context) -> None:  # noqa: N802
        """Refuses: no exported signature fits it."""
        async with _responding(self._metrics, "classify", context):
            raise only_predict()

    async def Regress(self, request: Any, context: Context) -> None:  # noqa: N802
        """Refuses: no exported signature fits it."""
        async with _responding(self._metrics, "regress", context):
            raise only_predict()

    async def MultiInference(  # noqa: N802
        self, request: Any, context: Context
    ) -> None:
        """Refuses: no exported signature fits it."""
        async with _responding(self._metrics, "multi_inference", context):
            raise only_predict()

    async def GetModelMetadata(  # noqa: N802
        self, request: get_model_metadata_pb2.GetModelMetadataRequest, context: Context
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """Returns the signatures."""
        async with _responding(self._metrics, "metadata", context):
            if set(request.metadata_field) != {SIGNATURE_DEF}:
                raise invalid("metadata_field", allowed=SIGNATURE_DEF)
            with self._versions.use(*_target(request)) as model:
                assert isinstance(model, SavedModelFacts)
                response = get_model_metadata_pb2.GetModelMetadataResponse(
                    model_spec=_model_spec(request, model, "")
                )
                signatures = get_model_metadata_pb2.SignatureDefMap(
                    signature_def=model.signature_defs
                )
                response.metadata[SIGNATURE_DEF].Pack(signatures)
                return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Reports the state of the versions."""

    def __init__(self, versions: LoadedVersions, metrics: Metrics) -> None:
        self._versions = versions
        self._metrics = metrics

    async def GetModelStatus(  # noqa: N802
        self, request: get_model_status_pb2.GetModelStatusRequest, context: Context
    ) -> get_model_status_pb2.GetModelStatusResponse:
        """Returns the state of one version or of all."""
        async with _responding(self._metrics, "status", context):
            response = get_model_status_pb2.GetModelStatusResponse()
            for version in self._versions.describe(*_target(request)):
                status = response.model_version_status.add(
                    version=version.number, state=version.state.value
                )
                if version.error:
                    status.status.error_code = Code.INTERNAL.value
                    status.status.error_message = version.error
            return response

    async def HandleReloadConfigRequest(  # noqa: N802
        self, request: Any, context: Context
    ) -> None:
        """Refuses: the model is a setting of the server."""
        async with _responding(self._metrics, "reload", context):
            raise RequestError(
                Code.UNIMPLEMENTED,
                got="HandleReloadConfigRequest is not implemented",
            )


@contextlib.asynccontextmanager
async def _responding(
    metrics: Metrics, api: str, context: Context
) -> AsyncIterator[Call]:
    """Counts a call, and sends its errors to the client."""
    try:
        with metrics.call(GRPC, api) as call:
            yield call
    except RequestError as error:
        await context.abort(_STATUS[error.code.value], error.message)
    except Exception as error:
        logger.exception("%s over gRPC failed", api)
        await context.abort(grpc.StatusCode.INTERNAL, describe_failure(error))


def _target(request: Any) -> tuple[str, int | None, str | None]:
    """Returns the name, the version and the label of the model of a request."""
    if not request.HasField("model_spec"):
        raise invalid("model_spec", "missing")
    spec = request.model_spec
    choice = spec.WhichOneof("version_choice")
    if choice == "version":
        return spec.name, spec.version.value, None
    return spec.name, None, spec.version_label if choice else None


def _model_spec(request: Any, model: ModelFacts, signature: str) -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=request.model_spec.name, signature_name=signature)
    spec.version.value = model.version
    return spec
