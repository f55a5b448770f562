"""A stand-in for Vertex AI Vizier: a gRPC server with the methods that we call.

It has Google's messages, does what their documentation says, and proposes at random.
"""

import concurrent.futures
import contextlib
import random
import statistics

import grpc
from google.cloud.aiplatform_v1 import VizierServiceClient
from google.cloud.aiplatform_v1.services.vizier_service.transports import (
    VizierServiceGrpcTransport,
)
from google.cloud.aiplatform_v1.types import Study, Trial, vizier_service
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

_SERVICE = "google.cloud.aiplatform.v1.VizierService"
_ENDED = (Trial.State.SUCCEEDED, Trial.State.INFEASIBLE)


class Vizier:
    """The studies of a project.

    Attributes:
      studies: By display name.
      trials: Of each study, by its resource name.
    """

    def __init__(self):
        self.studies = {}
        self.trials = {}
        self._random = random.Random(0)

    def create_study(self, request, context):
        name = request.study.display_name
        if name in self.studies:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, f"study {name}")
        resource = f"{request.parent}/studies/{len(self.studies) + 1}"
        self.studies[name] = Study(request.study, name=resource)
        self.trials[resource] = []
        return self.studies[name]

    def lookup_study(self, request, context):
        return self.studies[request.display_name]

    def delete_study(self, request, context):
        del self.trials[request.name]
        self.studies = {k: v for k, v in self.studies.items() if v.name != request.name}
        return empty_pb2.Empty()

    def list_trials(self, request, context):
        return vizier_service.ListTrialsResponse(trials=self.trials[request.parent])

    def get_trial(self, request, context):
        return self._find(request.name)

    def suggest_trials(self, request, context):
        """Returns the client's pending trial, or a new one with a context's values."""
        trials = self.trials[request.parent]
        pending = [
            trial
            for trial in trials
            if trial.client_id == request.client_id and trial.state not in _ENDED
        ]
        if not pending and (trial := self._new(request)) is not None:
            trials.append(trial)
            pending = [trial]
        return _done(vizier_service.SuggestTrialsResponse(trials=pending))

    def add_trial_measurement(self, request, context):
        trial = self._find(request.trial_name)
        steps = [measured.step_count for measured in trial.measurements]
        if steps and request.measurement.step_count <= steps[-1]:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "steps are not increasing")
        trial.measurements.append(request.measurement)
        return trial

    def check_trial_early_stopping_state(self, request, context):
        """Stops a trial that is below the median of the averages of the others."""
        trial = self._find(request.trial_name)
        (*_, last) = trial.measurements
        averages = [
            statistics.mean(values)
            for other in self.trials[trial.name.partition("/trials/")[0]]
            if other.state == Trial.State.SUCCEEDED
            and (values := _values(other, last.step_count))
        ]
        best = max(_values(trial, last.step_count))
        is_below = bool(averages) and best < statistics.median(averages)
        return _done(
            vizier_service.CheckTrialEarlyStoppingStateResponse(should_stop=is_below)
        )

    def complete_trial(self, request, context):
        trial = self._find(request.name)
        if trial.state in _ENDED:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the trial has ended")
        trial.state = Trial.State.SUCCEEDED
        if request.trial_infeasible:
            trial.state = Trial.State.INFEASIBLE
            trial.infeasible_reason = request.infeasible_reason
        else:
            trial.final_measurement = request.final_measurement
        return trial

    def _new(self, request):
        """Returns a trial with new parameters; None if all have been used."""
        (study,) = (s for s in self.studies.values() if s.name == request.parent)
        trials = self.trials[request.parent]
        tried = [_parameters(trial) for trial in trials]
        fixed = {
            entry.parameter_id: entry.value
            for context in request.contexts
            for entry in context.parameters
        }
        for _ in range(100):
            parameters = {
                spec.parameter_id: self._draw(spec)
                for spec in study.study_spec.parameters
            } | fixed
            if parameters not in tried:
                return Trial(
                    name=f"{request.parent}/trials/{len(trials) + 1}",
                    state=Trial.State.ACTIVE,
                    client_id=request.client_id,
                    parameters=[
                        {"parameter_id": name, "value": value}
                        for name, value in parameters.items()
                    ],
                )
        return None

    def _draw(self, spec):
        if "double_value_spec" in spec:
            values = spec.double_value_spec
            return self._random.uniform(values.min_value, values.max_value)
        if "integer_value_spec" in spec:
            values = spec.integer_value_spec
            return self._random.randint(values.min_value, values.max_value)
        kind = "discrete" if "discrete_value_spec" in spec else "categorical"
        return self._random.choice(list(getattr(spec, f"{kind}_value_spec").values))

    def _find(self, name):
        (trial,) = (t for ts in self.trials.values() for t in ts if t.name == name)
        return trial


def _parameters(trial):
    return {entry.parameter_id: entry.value for entry in trial.parameters}


def _values(trial, last):
    """Returns the measured values of a trial up to a step."""
    return [
        measured.metrics[0].value
        for measured in trial.measurements
        if measured.step_count <= last
    ]


def _done(response):
    """Returns a long-running operation that has ended."""
    operation = operations_pb2.Operation(name="operations/1", done=True)
    operation.response.Pack(type(response).pb(response))
    return operation


@contextlib.contextmanager
def running():
    """Serves a new `Vizier` on a loopback port.

    Yields:
      It, and a function like `modules.training.vizier.connect`.
    """
    vizier = Vizier()
    methods = {
        "CreateStudy": (vizier_service.CreateStudyRequest, vizier.create_study),
        "LookupStudy": (vizier_service.LookupStudyRequest, vizier.lookup_study),
        "DeleteStudy": (vizier_service.DeleteStudyRequest, vizier.delete_study),
        "ListTrials": (vizier_service.ListTrialsRequest, vizier.list_trials),
        "GetTrial": (vizier_service.GetTrialRequest, vizier.get_trial),
        "SuggestTrials": (vizier_service.SuggestTrialsRequest, vizier.suggest_trials),
        "AddTrialMeasurement": (
            vizier_service.AddTrialMeasurementRequest,
            vizier.add_trial_measurement,
        ),
        "CheckTrialEarlyStoppingState": (
            vizier_service.CheckTrialEarlyStoppingStateRequest,
            vizier.check_trial_early_stopping_state,
        ),
        "CompleteTrial": (vizier_service.CompleteTrialRequest, vizier.complete_trial),
    }
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            method, request.deserialize, _serialize
        )
        for name, (request, method) in methods.items()
    }
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(_SERVICE, handlers)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        transport = VizierServiceGrpcTransport(channel=channel)
        yield vizier, lambda region: VizierServiceClient(transport=transport)
    server.stop(None).wait()


def _serialize(message):
    if isinstance(message, operations_pb2.Operation | empty_pb2.Empty):
        return message.SerializeToString()
    return type(message).serialize(message)
