"""The parts of Vertex AI's pipeline and metadata services that a submission uses."""

import collections
import dataclasses
from typing import Any

import grpc
from google.cloud.aiplatform_v1 import types
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

_States = types.PipelineState


@dataclasses.dataclass
class VertexAI:
    """The state of the services, their behaviour and the requests that they received.

    Attributes:
      states: States of a job, one for each request; the last one stays.
      refusal: Status and message of the response to a new job; None accepts it.
      failure: Fields that are added to a job whose state is FAILED.
      hosts: Addresses that clients connected to.
      credentials: Credentials of the clients.
    """

    states: list[str] = dataclasses.field(default_factory=lambda: ["SUCCEEDED"])
    refusal: tuple[grpc.StatusCode, str] | None = None
    failure: dict[str, Any] = dataclasses.field(default_factory=dict)
    hosts: list[str] = dataclasses.field(default_factory=list)
    credentials: list[Any] = dataclasses.field(default_factory=list)
    created: list[types.CreatePipelineJobRequest] = dataclasses.field(
        default_factory=list
    )
    contexts: dict[str, types.Context] = dataclasses.field(default_factory=dict)
    children: dict[str, list[str]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )

    def create_pipeline_job(self, request, context):
        """Creates a job if its spec is valid."""
        if self.refusal is not None:
            context.abort(*self.refusal)
        spec = json_format.MessageToDict(request.pipeline_job._pb.pipeline_spec)
        json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
        self.created.append(request)
        return self._job(_States.PIPELINE_STATE_PENDING)

    def get_pipeline_job(self, request, context):
        """Returns the job in its next state."""
        name = self._job(_States.PIPELINE_STATE_PENDING).name
        if request.name != name:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{request.name} is not {name}")
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return self._job(_States[f"PIPELINE_STATE_{state}"])

    def _job(self, state):
        (request,) = self.created
        parent, job_id = request.parent, request.pipeline_job_id
        job = types.PipelineJob(request.pipeline_job)
        job.name = f"{parent}/pipelineJobs/{job_id}"
        job.state = state
        job.job_detail.pipeline_run_context = self._context(parent, job_id)
        if state == _States.PIPELINE_STATE_FAILED:
            failed = types.PipelineJob(self.failure)
            job.error = failed.error
            job.job_detail.task_details = failed.job_detail.task_details
        return job

    def get_metadata_store(self, request, _):
        """Returns the store, which every project has."""
        return types.MetadataStore(name=request.name)

    def get_context(self, request, context):
        """Returns an experiment or a run."""
        if request.name not in self.contexts:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no context {request.name}")
        return self.contexts[request.name]

    def create_context(self, request, _):
        """Creates an experiment."""
        created = types.Context(request.context)
        created.name = f"{request.parent}/contexts/{request.context_id}"
        self.contexts[created.name] = created
        return created

    def add_context_children(self, request, _):
        """Adds a run to an experiment."""
        self.children[request.context].extend(request.child_contexts)
        return types.AddContextChildrenResponse()

    def _context(self, parent, name):
        return types.Context(name=f"{parent}/metadataStores/default/contexts/{name}")

    def handlers(self):
        """Returns the handlers for a gRPC server."""
        services = {
            "PipelineService": {
                "CreatePipelineJob": (self.create_pipeline_job, types.PipelineJob),
                "GetPipelineJob": (self.get_pipeline_job, types.PipelineJob),
            },
            "MetadataService": {
                "GetMetadataStore": (self.get_metadata_store, types.MetadataStore),
                "GetContext": (self.get_context, types.Context),
                "CreateContext": (self.create_context, types.Context),
                "AddContextChildren": (
                    self.add_context_children,
                    types.AddContextChildrenResponse,
                ),
            },
        }
        return [
            grpc.method_handlers_generic_handler(
                f"google.cloud.aiplatform.v1.{service}",
                {
                    name: grpc.unary_unary_rpc_method_handler(
                        method,
                        request_deserializer=getattr(
                            types, f"{name}Request"
                        ).deserialize,
                        response_serializer=response.serialize,
                    )
                    for name, (method, response) in methods.items()
                },
            )
            for service, methods in services.items()
        ]
