"""Vertex AI's pipeline and metadata services, as far as a submission needs them."""

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
    """What the services hold, play and were sent.

    Attributes:
      states: Those that a job goes through, one a look; the last stays.
      refusal: The status and the message that a new job is refused with.
      failure: What is added to a job whose state is FAILED.
      hosts: The addresses that clients wanted to reach.
      credentials: Those that clients brought.
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
        """Makes a job, after a look at what Vertex AI would also look at."""
        if self.refusal is not None:
            context.abort(*self.refusal)
        spec = json_format.MessageToDict(request.pipeline_job._pb.pipeline_spec)
        json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
        self.created.append(request)
        return self._job(_States.PIPELINE_STATE_PENDING)

    def get_pipeline_job(self, request, context):
        """Returns the job in the next of its states."""
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
        """Makes an experiment."""
        made = types.Context(request.context)
        made.name = f"{request.parent}/contexts/{request.context_id}"
        self.contexts[made.name] = made
        return made

    def add_context_children(self, request, _):
        """Adds a run to an experiment."""
        self.children[request.context].extend(request.child_contexts)
        return types.AddContextChildrenResponse()

    def _context(self, parent, name):
        return types.Context(name=f"{parent}/metadataStores/default/contexts/{name}")

    def handlers(self):
        """Returns what a gRPC server needs to serve this."""
        services = {
            "PipelineService": {
                "CreatePipelineJob": (
                    self.create_pipeline_job,
                    types.CreatePipelineJobRequest,
                    types.PipelineJob,
                ),
                "GetPipelineJob": (
                    self.get_pipeline_job,
                    types.GetPipelineJobRequest,
                    types.PipelineJob,
                ),
            },
            "MetadataService": {
                "GetMetadataStore": (
                    self.get_metadata_store,
                    types.GetMetadataStoreRequest,
                    types.MetadataStore,
                ),
                "GetContext": (
                    self.get_context,
                    types.GetContextRequest,
                    types.Context,
                ),
                "CreateContext": (
                    self.create_context,
                    types.CreateContextRequest,
                    types.Context,
                ),
                "AddContextChildren": (
                    self.add_context_children,
                    types.AddContextChildrenRequest,
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
                        request_deserializer=request.deserialize,
                        response_serializer=response.serialize,
                    )
                    for name, (method, request, response) in methods.items()
                },
            )
            for service, methods in services.items()
        ]
