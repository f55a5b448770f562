"""The parts of Kubeflow Pipelines' REST API (v2beta1) that kfp's client requests.

And the log of a pod, which has the path of v1alpha1 (`run_log_server.go`).
"""

import dataclasses
import email
import json
import re
import urllib.parse
from http.server import BaseHTTPRequestHandler
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

PREFIX = "/apis/v2beta1/"
_LOG = re.compile(r"/apis/v1alpha1/runs/(?P<run_id>[^/]+)/nodes/(?P<pod>[^/]+)/log")
_TIME = "2024-05-01T00:00:00Z"


@dataclasses.dataclass(frozen=True)
class Request:
    """A request that was received."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class RefusalError(Exception):
    """A response with a status other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass
class KubeflowPipelines:
    """The state of the server, its behaviour and the requests that it received.

    Attributes:
      states: States of a run, one for each request; the last one stays.
      token: The bearer token that is required; None requires none.
      forbids: Message of status 403, the response to every request; None forbids none.
      shows_login: Whether every response is a log-in page.
      multi_user: Whether there are several users.
      outages: Number of requests for a run with status 503 as the response.
      failure: Fields that are added to a run whose state is FAILED.
      logs: Logs of pods by name; requests for others have status 500.
      log_type: Content type of a log.
    """

    states: list[str] = dataclasses.field(default_factory=lambda: ["SUCCEEDED"])
    token: str | None = None
    forbids: str | None = None
    shows_login: bool = False
    multi_user: bool = False
    outages: int = 0
    failure: dict[str, Any] = dataclasses.field(default_factory=dict)
    logs: dict[str, str] = dataclasses.field(default_factory=dict)
    log_type: str = "text/plain"
    requests: list[Request] = dataclasses.field(default_factory=list)
    pipelines: list[dict] = dataclasses.field(default_factory=list)
    versions: list[dict] = dataclasses.field(default_factory=list)
    experiments: list[dict] = dataclasses.field(default_factory=list)
    runs: list[dict] = dataclasses.field(default_factory=list)

    def respond(self, request: Request) -> dict[str, Any] | str:
        """Returns the response to a request, JSON or a log."""
        self.requests.append(request)
        sent = request.headers.get("authorization")
        if self.token is not None and sent != f"Bearer {self.token}":
            raise RefusalError(401, f"the token {sent} is not valid")
        if self.forbids is not None:
            raise RefusalError(403, self.forbids)
        if match := _LOG.fullmatch(request.path):
            return self._get_log(**match.groupdict())
        route = request.path.removeprefix(PREFIX)
        if route.startswith("runs/"):
            return self._get_run(route.removeprefix("runs/"))
        if route.startswith("pipelines/") and route.endswith("/versions"):
            versions = self._of(self.versions, pipeline_id=route.split("/")[1])
            return {"pipeline_versions": versions[::-1]}
        return getattr(self, f"_{request.method.lower()}_{route.replace('/', '_')}")(
            request
        )

    def _get_healthz(self, _):
        return {"multi_user": self.multi_user}

    def _get_pipelines(self, request):
        return {"pipelines": self._named(self.pipelines, request)}

    def _post_pipelines_upload(self, request):
        pipeline = {
            "pipeline_id": f"pipeline-{len(self.pipelines)}",
            "display_name": request.query["name"],
            "namespace": request.query.get("namespace", ""),
            "created_at": _TIME,
        }
        key = ("display_name", "namespace")
        if self._of(self.pipelines, **{name: pipeline[name] for name in key}):
            raise RefusalError(
                409, f"pipeline {pipeline['display_name']} already exists"
            )
        self.pipelines.append(pipeline)
        self._add_version(pipeline, pipeline["display_name"], request.body)
        return pipeline

    def _post_pipelines_upload_version(self, request):
        (pipeline,) = self._of(self.pipelines, pipeline_id=request.query["pipelineid"])
        return self._add_version(pipeline, request.query["name"], request.body)

    def _get_experiments(self, request):
        return {"experiments": self._named(self.experiments, request)}

    def _post_experiments(self, request):
        experiment = {"experiment_id": f"experiment-{len(self.experiments)}"}
        self.experiments.append(experiment | request.body)
        return self.experiments[-1]

    def _post_runs(self, request):
        reference = request.body["pipeline_version_reference"]
        if not self._of(self.versions, **reference):
            raise RefusalError(404, f"no version {reference}")
        run = {"run_id": f"run-{len(self.runs)}", "created_at": _TIME}
        self.runs.append(run | request.body)
        return self.runs[-1]

    def _get_run(self, run_id):
        if self.outages:
            self.outages -= 1
            raise RefusalError(503, "the API server restarts")
        (run,) = self._of(self.runs, run_id=run_id)
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return run | {"state": state} | (self.failure if state == "FAILED" else {})

    def _get_log(self, run_id, pod):
        assert self._of(self.runs, run_id=run_id)
        if pod not in self.logs:
            raise RefusalError(500, f"pods {pod} not found")
        return self.logs[pod]

    def _add_version(self, pipeline, name, spec):
        pipeline_id = pipeline["pipeline_id"]
        if self._of(self.versions, pipeline_id=pipeline_id, display_name=name):
            raise RefusalError(409, f"version {name} already exists")
        try:
            json_format.ParseDict(spec, pipeline_spec_pb2.PipelineSpec())
        except json_format.ParseError as error:
            raise RefusalError(400, f"invalid pipeline spec: {error}") from error
        version = {
            "pipeline_id": pipeline_id,
            "pipeline_version_id": f"version-{len(self.versions)}",
            "display_name": name,
            "pipeline_spec": spec,
            "created_at": _TIME,
        }
        self.versions.append(version)
        return version

    def _named(self, items, request):
        (condition,) = json.loads(request.query["filter"])["predicates"]
        assert condition["operation"] in ("EQUALS", 1)
        named = self._of(items, **{condition["key"]: condition["stringValue"]})
        namespace = request.query.get("namespace") or ""
        return [item for item in named if (item.get("namespace") or "") == namespace]

    @staticmethod
    def _of(items, **values):
        return [item for item in items if values.items() <= item.items()]


def handler(state: KubeflowPipelines) -> type[BaseHTTPRequestHandler]:
    """Returns the handler that serves the API on HTTP."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if state.shows_login:
                self._send(200, "text/html", b"<form>Log in</form>")
                return
            try:
                status, response = 200, state.respond(self._request())
            except RefusalError as refusal:
                status, response = refusal.status, {"message": str(refusal)}
            if isinstance(response, str):
                self._send(status, state.log_type, response.encode())
                return
            self._send(status, "application/json", json.dumps(response).encode())

        do_POST = do_GET  # noqa: N815

        def _request(self):
            url = urllib.parse.urlsplit(self.path)
            return Request(
                method=self.command,
                path=url.path,
                query=dict(urllib.parse.parse_qsl(url.query)),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=self._body(),
            )

        def _body(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kind = self.headers.get("Content-Type", "")
            if not kind.startswith("multipart/"):
                return json.loads(body) if body else None
            message = email.message_from_bytes(
                f"Content-Type: {kind}\r\n\r\n".encode() + body
            )
            (part,) = message.get_payload()
            assert part.get_filename().endswith(".yaml")
            return yaml.safe_load(part.get_payload(decode=True))

        def _send(self, status, kind, body):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler
