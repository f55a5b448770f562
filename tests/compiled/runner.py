"""Runs a compiled pipeline on this machine, task by task, as its backend would.

    with JobRunner("kubeflow", "gs://bucket/root", state, store=store) as runner:
        run = runner.run(spec, parameters={"seed": 2})
    run.tasks["Trainer"].outputs["model"]["uri"]

Differences to a real backend: tasks run one at a time; a retry does not wait.
"""

import copy
import dataclasses
import graphlib
import itertools
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.compiled import executor_input, pod, vertex_jobs, worker
from tests.compiled import spec as specs
from tests.compiled.backends import BACKENDS, Artifact
from tests.compiled.container import Container, WorkerConnection, image_environment
from tests.object_store.client import ObjectStore

_LINES_SHOWN = 60


class JobFailedError(Exception):
    """A task failed in all its attempts; the message names it and ends with its log.

    Attributes:
      run: The run up to this task.
    """

    def __init__(self, text: str, run: "JobRun") -> None:
        super().__init__(text)
        self.run = run


@dataclasses.dataclass
class TaskRun:
    """The execution of a task.

    Attributes:
      name: Its name.
      log: Output of its processes.
      state: `run`, `cached` or `failed`.
      attempts: How often its container was started.
      executor_input: The container's ExecutorInput.
      environment: What the backend adds to the container's environment.
      artifacts: Its outputs in the metadata store.
      parameters: Its output parameters.
      outputs: Its outputs as inputs of the next task: name, type, uri, metadata.
    """

    name: str
    log: Path
    state: str = "failed"
    attempts: int = 0
    executor_input: dict[str, Any] = dataclasses.field(default_factory=dict)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    artifacts: dict[str, Artifact] = dataclasses.field(default_factory=dict)
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class JobRun:
    """A run of a pipeline.

    Attributes:
      id: The backend's ID of it.
      directory: Directory of its logs.
      tasks: The executed tasks, in order.
    """

    id: str
    directory: Path
    tasks: dict[str, TaskRun] = dataclasses.field(default_factory=dict)

    @property
    def custom_jobs(self) -> list[vertex_jobs.RecordedJob]:
        """The custom jobs that its tasks created on Vertex AI."""
        return vertex_jobs.read_jobs(self.directory / "custom_jobs")

    @property
    def states(self) -> dict[str, str]:
        """The state of each task."""
        return {name: task.state for name, task in self.tasks.items()}


class JobRunner:
    """A backend that runs compiled pipelines on this machine; a context manager.

    Args:
      backend: `kubeflow` or `vertex`.
      pipeline_root: Directory of all outputs; for Kubeflow `gs://BUCKET/...`.
      state: Directory of logs.
      store: The object store of the pipeline root; None for a local one.
      server: Worker to share with other runners; None starts one.

    Attributes:
      pod_is_lost: Whether the attempt that fails next fails because its pod is lost. A
        test that kills the container sets it.
    """

    def __init__(
        self,
        backend: str,
        pipeline_root: str | Path,
        state: Path,
        *,
        store: ObjectStore | None = None,
        server: WorkerConnection | None = None,
    ) -> None:
        self._backend = BACKENDS[backend]()
        self._is_vertex = backend == "vertex"
        self._root = str(pipeline_root)
        self._object_store = store
        self._state = state.resolve()
        self._numbers = itertools.count(1)
        self._cache: dict[str, tuple[dict[str, Artifact], dict[str, Any]]] = {}
        self._resources = ExitStack()
        self._server = server
        self.pod_is_lost = False

    def __enter__(self) -> "JobRunner":
        self._state.mkdir(parents=True, exist_ok=True)
        if self._server is None:
            self._server = self._resources.enter_context(
                worker.start(store=self._object_store)
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._resources.close()

    def run(
        self, spec: dict[str, Any], *, parameters: dict[str, Any] | None = None
    ) -> JobRun:
        """Runs a pipeline."""
        specs.check_spec(spec)
        specs.refuse_unsupported(spec)
        values = specs.root_parameters(spec, parameters or {})
        run_id = self._backend.new_run(spec["pipelineInfo"]["name"])
        run = JobRun(run_id, self._state / "runs" / run_id)
        (run.directory / "custom_jobs").mkdir(parents=True)
        tasks = spec["root"]["dag"]["tasks"]
        order = graphlib.TopologicalSorter(
            {name: task.get("dependentTasks", []) for name, task in tasks.items()}
        )
        for name in order.static_order():
            self._run_task(spec, name, values, run)
        return run

    def rerun_task(self, spec: dict[str, Any], name: str, run: JobRun) -> TaskRun:
        """Runs a task of a pipeline again, on the outputs of the tasks before it."""
        again = dataclasses.replace(run, tasks=dict(run.tasks))
        self._run_task(spec, name, specs.root_parameters(spec, {}), again)
        return again.tasks[name]

    def _run_task(
        self, spec: dict[str, Any], name: str, values: dict[str, Any], run: JobRun
    ) -> None:
        """Adds a task to the run."""
        task = spec["root"]["dag"]["tasks"][name]
        component = spec["components"][task["componentRef"]["name"]]
        container = specs.container_of(spec, component)
        pipeline = spec["pipelineInfo"]["name"]
        directory = self._backend.task_directory(self._root, pipeline, run.id, name)
        message = {
            "inputs": executor_input.inputs(
                task, component, values, run.tasks, self._backend
            ),
            "outputs": self._backend.outputs(component, directory),
        }
        done = run.tasks[name] = TaskRun(name, run.directory / f"{name}.log")
        done.executor_input = message
        done.environment = self._backend.environment(run.id, task)
        check = container.get("lifecycle", {}).get("preCacheCheck")
        if check and self._backend.PRE_CACHE_CHECK:
            reported = self._start(check, container, run, done)
            message["inputs"]["parameterValues"].update(
                reported.get("parameterValues", {})
            )
            executor_input.merge_artifacts(reported, message)
        key = executor_input.fingerprint(pipeline, container, component, message)
        is_cached = task.get("cachingOptions", {}).get("enableCache", False)
        if is_cached and key in self._cache:
            done.artifacts, done.parameters = self._cache[key]
            done.state = "cached"
        else:
            retries = int(task.get("retryPolicy", {}).get("maxRetryCount", 0))
            reported = self._attempt(container, run, done, retries + 1)
            self._publish(component, reported, done)
            if is_cached:
                self._cache[key] = done.artifacts, done.parameters
        done.outputs = {
            key: executor_input.as_input(artifact, self._backend)
            for key, artifact in done.artifacts.items()
        }

    def _attempt(
        self,
        container: dict[str, Any],
        run: JobRun,
        done: TaskRun,
        attempts: int,
    ) -> dict[str, Any]:
        """Runs a task's container until it succeeds, at most `attempts` times."""
        while True:
            if "KFP_RETRY_INDEX" in done.environment:
                done.environment["KFP_RETRY_INDEX"] = str(done.attempts)
            done.attempts += 1
            try:
                return self._start(container, container, run, done)
            except JobFailedError:
                is_retried = self._backend.RETRIES_FAILURES or self.pod_is_lost
                self.pod_is_lost = False
                if not is_retried or done.attempts == attempts:
                    raise

    def _start(
        self,
        process: dict[str, Any],
        container: dict[str, Any],
        run: JobRun,
        done: TaskRun,
    ) -> dict[str, Any]:
        """Runs a process of a container, and returns its ExecutorOutput."""
        assert self._server is not None
        assert self._server.exchange is not None
        message = done.executor_input
        template = process.get("command", []) + process.get("args", [])
        with tempfile.TemporaryDirectory(dir=self._server.exchange) as scratch:
            log = Path(scratch, "log")
            output = Path(scratch, "output.json")
            home = Path(scratch, "home")
            home.mkdir()
            image = image_environment(home)
            if self._object_store is not None:
                os.chown(scratch, pod.USER, 0)
                image = image_environment(Path(pod.HOME))
                image |= self._object_store.environment
            code = self._server.run(
                Container(
                    command=executor_input.command_line(template, message),
                    image=image,
                    variables={
                        **done.environment,
                        **{v["name"]: v["value"] for v in container.get("env", [])},
                    },
                    directory=image["HOME"],
                    log=str(log),
                    custom_jobs=str(run.directory / "custom_jobs")
                    if self._is_vertex
                    else None,
                    executor_input=None if self._is_vertex else message,
                    output=str(output),
                )
            )
            with done.log.open("a") as file:
                file.write(log.read_text())
            if code != 0:
                raise JobFailedError(
                    f"task {done.name} failed with exit code {code}, attempt "
                    f"{done.attempts}; {done.log} ends with:\n{_tail(done.log)}",
                    run,
                )
            if self._is_vertex:
                output = Path(message["outputs"]["outputFile"])
            return executor_input.read_output(output)

    def _publish(
        self, component: dict[str, Any], reported: dict[str, Any], done: TaskRun
    ) -> None:
        """Stores the outputs of a task that succeeded."""
        message = copy.deepcopy(done.executor_input)
        executor_input.merge_artifacts(reported, message)
        for key, value in message["outputs"]["artifacts"].items():
            (artifact,) = value["artifacts"]
            done.artifacts[key] = Artifact(
                next(self._numbers),
                artifact["uri"],
                artifact["type"].get("instanceSchema", ""),  # a page has a title
                self._backend.keep(key, artifact.get("metadata", {})),
            )
        declared = component.get("outputDefinitions", {}).get("parameters", {})
        for key, parameter in declared.items():
            value = reported.get("parameterValues", {}).get(key)
            done.parameters[key] = specs.check_type(key, parameter, value)
        done.state = "run"


def _tail(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-_LINES_SHOWN:])
