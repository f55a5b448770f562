"""A Flink cluster on this machine, for tests and measurements.

    python -m tools.flink_cluster
    python -m tools.flink_cluster DIRECTORY --task-managers 3

A JobManager and TaskManagers on loopback, each a process, with a pool of Beam's workers
for each TaskManager. It runs until Ctrl-C, and prints the settings of a recipe that
runs Beam on it. Its programs are those that `make job-servers` assembles.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import psutil
import yaml

from modules import environment
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY
from tools.local_cluster import (
    find_libraries,
    free_ports,
    open_packages,
    request,
    run_until_interrupted,
)

_HOST = "localhost"
_RUNTIME = "org.apache.flink.runtime"
# A job brings these jars. On the cluster's class path they would hide its versions.
_JOB_JARS = ("beam-", "gapic-", "gax", "gcsio", "google-", "grpc-", "proto")
# Without Flink's scripts, a TaskManager does not compute its memory. The sum is the
# heap and direct memory of `_MEMORY`, 192 MB metaspace, 128 MB managed. For 1,000,000
# rows, heap and direct memory for Beam's gRPC were not enough with 512 and 256 MB.
_TASK_MANAGER_MEMORY = {
    "taskmanager.memory.framework.heap.size": "128m",
    "taskmanager.memory.task.heap.size": "1920m",
    "taskmanager.memory.framework.off-heap.size": "64m",
    "taskmanager.memory.task.off-heap.size": "832m",
    "taskmanager.memory.network.min": "128m",
    "taskmanager.memory.network.max": "128m",
    "taskmanager.memory.managed.size": "128m",
    "taskmanager.memory.jvm-metaspace.size": "192m",
    "taskmanager.memory.jvm-overhead.min": "64m",
    "taskmanager.memory.jvm-overhead.max": "64m",
    # StatisticsGen has many shuffles: with the default of 512 buffers for each one, 192
    # MB are not enough.
    "taskmanager.network.sort-shuffle.min-buffers": "16",
}
_MEMORY = ("-Xmx2g", "-XX:MaxDirectMemorySize=1g")
# Each TaskManager resolves it to the address of its own pool: Beam's IDs of workers are
# unique in one TaskManager only.
_POOL_HOST = "worker-pool"
_START_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class TaskManager:
    """A TaskManager and its pool of workers.

    Attributes:
      process: The TaskManager.
      pool: The pool, whose child processes are the workers.
    """

    process: subprocess.Popen[bytes]
    pool: subprocess.Popen[bytes]


class FlinkCluster:
    """A cluster that runs until the context ends.

    Args:
      directory: A directory for logs, and for jobs if `is_highly_available`.
      task_managers: The number of TaskManagers.
      slots: Task slots of each TaskManager.
      is_highly_available: Whether jobs survive the loss of the JobManager ("high
        availability"), with ZooKeeper.

    Attributes:
      directory: The directory.
      master: `HOST:PORT` of the REST API.
      task_managers: The running TaskManagers.
      job_manager: The JobManager.
    """

    def __init__(
        self,
        directory: Path,
        *,
        task_managers: int = 2,
        slots: int = 1,
        is_highly_available: bool = False,
    ) -> None:
        self.directory = directory
        self._count = task_managers
        self._slots = slots
        self._processes: list[subprocess.Popen[bytes]] = []
        self._numbers = itertools.count()
        rpc, blobs, self._rest, self._pool_port, self._quorum = free_ports(_HOST, 5)
        self.master = f"{_HOST}:{self._rest}"
        self.task_managers: list[TaskManager] = []
        self._is_highly_available = is_highly_available
        # The cluster on Kubernetes has the same restart strategy.
        deployment = REPOSITORY / "deploy" / "flink" / "cluster.yaml"
        deployed = yaml.safe_load(deployment.read_text())["spec"]["flinkConfiguration"]
        self._settings = {
            "jobmanager.rpc.address": _HOST,
            "jobmanager.rpc.port": rpc,
            "blob.server.port": blobs,
            "rest.address": _HOST,
            "rest.bind-address": _HOST,
            "rest.port": self._rest,
            "taskmanager.host": _HOST,
            "taskmanager.cpu.cores": slots,
            "taskmanager.numberOfTaskSlots": slots,
            "io.tmp.dirs": directory,
            **_TASK_MANAGER_MEMORY,
            **{
                key: value
                for key, value in deployed.items()
                if key.startswith("restart-strategy")
            },
        }
        if is_highly_available:
            self._settings |= {
                "high-availability.type": "zookeeper",
                "high-availability.zookeeper.quorum": f"{_HOST}:{self._quorum}",
                "high-availability.storageDir": f"file://{directory}/jobs",
                # Milliseconds until a killed JobManager is replaced.
                "high-availability.zookeeper.client.session-timeout": "10000",
            }

    @property
    def beam(self) -> BeamConfig:
        """The settings that run Beam on this cluster."""
        return BeamConfig(
            runner="flink",
            master=self.master,
            workers=self._count * self._slots,
            environment="external",
            environment_config=f"{_POOL_HOST}:{self._pool_port}",
        )

    def __enter__(self) -> FlinkCluster:
        (self.directory / "conf").mkdir(parents=True, exist_ok=True)
        (self.directory / "conf" / "config.yaml").touch()
        try:
            if self._is_highly_available:
                file = self.directory / "zoo.cfg"
                file.write_text(
                    f"dataDir={self.directory}/zookeeper\nclientPort={self._quorum}\n"
                    f"clientPortAddress={_HOST}\nadmin.enableServer=false\n"
                )
                main = f"{_RUNTIME}.zookeeper.FlinkZooKeeperQuorumPeer"
                arguments = ["--zkConfigFile", str(file), "--peerId", "1"]
                self._run_java("zookeeper", main, ["-Xmx128m"], arguments)
            self.start_job_manager()
            for _ in range(self._count):
                self.start_task_manager()
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            kill(process)

    def start_job_manager(self) -> None:
        """Starts the JobManager, also again after it was killed."""
        main = f"{_RUNTIME}.entrypoint.StandaloneSessionClusterEntrypoint"
        self.job_manager = self._start_java("job-manager", main, "-Xmx768m")

    def start_task_manager(self) -> None:
        """Adds a TaskManager with its pool."""
        number = next(self._numbers)
        address = f"127.0.1.{number + 1}"
        hosts = self.directory / f"hosts-{number}"
        hosts.write_text(
            f"127.0.0.1 localhost {socket.gethostname()}\n{address} {_POOL_HOST}\n"
        )
        name = f"task-manager-{number}"
        pool = self._start(
            f"pool-{number}",
            [
                sys.executable,
                "-m",
                "pipeline.beam.worker_pool",
                f"{address}:{self._pool_port}",
            ],
        )
        process = self._start_java(
            name,
            f"{_RUNTIME}.taskexecutor.TaskManagerRunner",
            *_MEMORY,
            f"-Djdk.net.hosts.file={hosts}",
        )
        self.task_managers.append(TaskManager(process, pool))

    def wait_until_ready(self) -> None:
        """Waits until the TaskManagers, and no others, are registered.

        Raises:
          RuntimeError: They are not registered after two minutes, or a process ended.
        """
        processes = [self.job_manager, *(t.process for t in self.task_managers)]
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and all(p.poll() is None for p in processes):
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.request("/overview")["taskmanagers"] == len(self.task_managers):
                    return
            time.sleep(0.2)
        raise RuntimeError(f"Flink's cluster is not ready; see {self.directory}/*.log")

    def request(self, path: str) -> Any:
        """Returns the JSON of the REST API at a path, such as `/jobs/overview`."""
        return request(f"http://{self.master}{path}")

    def _start_java(
        self, name: str, main: str, *options: str
    ) -> subprocess.Popen[bytes]:
        pairs = (f"-D{key}={value}" for key, value in self._settings.items())
        arguments = ["--configDir", str(self.directory / "conf"), *pairs]
        return self._run_java(name, main, options, arguments)

    def _run_java(
        self, name: str, main: str, options: Any, arguments: list[str]
    ) -> subprocess.Popen[bytes]:
        libraries = (
            str(path)
            for path in find_libraries("flink")
            if not path.name.startswith(_JOB_JARS)
        )
        times = "-Dorg.slf4j.simpleLogger.showDateTime=true"
        command = ["java", *open_packages("flink"), times, *options]
        command += ["-cp", ":".join(libraries), main, *arguments]
        return self._start(name, command)

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with open(self.directory / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that `kill` reaches the workers
            )
        self._processes.append(process)
        return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kills a process of a cluster and its child processes with SIGKILL."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def kill_workers(pool: subprocess.Popen[bytes]) -> int:
    """Kills the workers of a pool with SIGKILL, but not the pool; returns how many."""
    workers = psutil.Process(pool.pid).children()
    for worker in workers:
        worker.kill()
    return len(workers)


@click.command(help=__doc__)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--task-managers", default=2, show_default=True)
@click.option(
    "--slots", default=1, show_default=True, help="Task slots of each TaskManager."
)
def main(directory: Path | None, task_managers: int, slots: int) -> None:
    """Runs the cluster until Ctrl-C."""
    environment.set_up()
    directory = (directory or Path(tempfile.mkdtemp(prefix="flink-"))).absolute()
    with FlinkCluster(directory, task_managers=task_managers, slots=slots) as cluster:
        run_until_interrupted(directory, cluster.beam)


if __name__ == "__main__":
    main()
