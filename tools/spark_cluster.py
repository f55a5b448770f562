"""A standalone Spark cluster on loopback: a master and workers, each a process.

    python -m tools.spark_cluster
    python -m tools.spark_cluster DIRECTORY --workers 3

It runs until Ctrl-C, and prints the settings of a recipe that runs Beam on it. Its
programs are those that `make job-servers` assembles. It needs Java 11 or 17.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import click
import psutil

from modules import environment
from pipeline.config.beam import BeamConfig
from tools.local_cluster import (
    find_libraries,
    free_ports,
    open_packages,
    request,
    run_until_interrupted,
)

_ADDRESS = "127.0.0.1"
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


@dataclasses.dataclass
class SparkCluster:
    """A master and workers that run until the context ends.

    Attributes:
      directory: Where logs, work and shuffled data are written.
      worker_count: The number of workers.
      cores: Cores of a worker. A job has one executor there, which uses all of them.
      executor_memory: The heap of an executor, in Java's notation.
      master: The address, for `beam.master`.
      master_process: The master.
      workers: The workers; an executor is a child process of its worker.
    """

    directory: Path
    worker_count: int = 2
    cores: int = 1
    executor_memory: str = "1g"
    master: str = dataclasses.field(init=False)
    master_process: subprocess.Popen[bytes] = dataclasses.field(init=False)
    workers: list[subprocess.Popen[bytes]] = dataclasses.field(default_factory=list)

    @property
    def beam(self) -> BeamConfig:
        """Beam's settings that run on this cluster."""
        properties = {
            # The driver is in Beam's job server, whose defaults are the host's name and
            # all of its addresses.
            "spark.driver.host": _ADDRESS,
            "spark.driver.bindAddress": _ADDRESS,
            "spark.ui.enabled": "false",
            "spark.executor.memory": self.executor_memory,
        }
        return BeamConfig(
            runner="spark",
            master=self.master,
            options=[
                f"--job_server_jvm_properties=-D{name}={value}"
                for name, value in properties.items()
            ],
        )

    def __enter__(self) -> SparkCluster:
        # A worker requires a file RELEASE and a folder `jars` in SPARK_HOME.
        libraries = find_libraries("spark")
        jars = self.directory / "home" / "jars"
        shutil.rmtree(jars, ignore_errors=True)  # of an earlier cluster
        jars.mkdir(parents=True)
        (jars.parent / "RELEASE").touch()
        for library in libraries:
            # A job brings Beam's jars, from its job server.
            if not library.name.startswith("beam-"):
                (jars / library.name).symlink_to(library)
        port, ui_port = free_ports(_ADDRESS, 2)
        self.master = f"spark://{_ADDRESS}:{port}"
        self._state_url = f"http://{_ADDRESS}:{ui_port}/json/"
        arguments = ["--port", str(port), "--webui-port", str(ui_port)]
        self.master_process = self._run("Master", arguments)
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.__exit__)
            self.start_workers()
            on_error.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        _stop(self.workers)
        _stop([self.master_process])

    def kill_worker(self, index: int) -> None:
        """Kills a worker and its executors, as the loss of a machine does."""
        process = self.workers.pop(index)
        worker = psutil.Process(process.pid)
        for part in (*worker.children(recursive=True), worker):
            with contextlib.suppress(psutil.NoSuchProcess):
                part.kill()
        process.wait()

    def start_workers(self) -> None:
        """Starts workers until there are `worker_count`, and waits for them.

        Raises:
          RuntimeError: They have not registered at the master.
        """
        # Spark compares the memory of an executor with it; nothing is reserved.
        memory = ["--memory", self.executor_memory, "--cores", str(self.cores)]
        work = ["--work-dir", str(self.directory / "work"), "--webui-port", "0"]
        while len(self.workers) < self.worker_count:
            self.workers.append(self._run("Worker", [*memory, *work, self.master]))
        end = time.monotonic() + _START_SECONDS
        while (alive := self._count_alive()) != self.worker_count:
            processes = (self.master_process, *self.workers)
            has_ended = any(process.poll() is not None for process in processes)
            if has_ended or time.monotonic() > end:
                raise RuntimeError(
                    f"{alive} of {self.worker_count} Spark workers have registered at "
                    f"the master; see {self.directory}/*.log"
                )
            time.sleep(0.2)

    def _run(self, program: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        home = self.directory / "home"
        environment = {
            **os.environ,
            "JDK_JAVA_OPTIONS": " ".join(open_packages("spark")),  # of executors, too
            "SPARK_HOME": str(home),
            "SPARK_SCALA_VERSION": "2.12",  # a worker would look for Spark's sources
            "SPARK_LOCAL_DIRS": str(self.directory / "shuffled"),
            "SPARK_LOCAL_IP": _ADDRESS,
        }
        main_class = f"org.apache.spark.deploy.{program.lower()}.{program}"
        with (self.directory / f"{program.lower()}.log").open("ab") as file:
            return subprocess.Popen(
                [
                    *("java", "-Xmx256m", "-cp", f"{home / 'jars'}/*", main_class),
                    *("--host", _ADDRESS, *arguments),
                ],
                env=environment,
                stdout=file,
                stderr=file,
                start_new_session=True,  # a Ctrl-C must not reach the daemons
            )

    def _count_alive(self) -> int:
        try:
            return int(request(self._state_url)["aliveworkers"])
        except (OSError, http.client.HTTPException):  # it does not listen yet
            return 0


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()  # a worker ends its executors
    for process in processes:
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@click.command(help=__doc__)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--workers", default=2, show_default=True, help="Number of workers.")
def main(directory: Path | None, workers: int) -> None:
    """Runs the cluster until Ctrl-C."""
    environment.set_up()
    directory = (directory or Path(tempfile.mkdtemp(prefix="spark-"))).absolute()
    with SparkCluster(directory, workers) as cluster:
        run_until_interrupted(directory, cluster.beam)


if __name__ == "__main__":
    main()
