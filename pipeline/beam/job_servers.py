"""Finds Beam's job servers for Flink and Spark, which are Java programs."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

from packaging.version import Version

from pipeline.config import paths
from pipeline.config.beam import BeamConfig
from pipeline.config.errors import UsageError

_GROUP = "org.apache.beam"
_MAVEN_REPOSITORY = Path(".m2/repository")
_BEAM_CACHE = Path(".apache_beam/cache/jars")


def find_jar(config: BeamConfig, *, is_here: bool) -> str:
    """Returns the path of a job server, which Beam would try to download.

    Args:
      config: Settings whose runner is `flink` or `spark`.
      is_here: Whether it runs on this machine instead of in a cluster's container,
        for which `job_server_jar` is required.

    Raises:
      UsageError: There is no job server, or no Java on this machine to run it.
    """
    if not is_here:
        if config.job_server_jar is None:
            raise UsageError(
                f"beam.job_server_jar: required by the runner {config.runner} in a "
                "container, but not set; name the file in the image, or use the runner "
                "portable with the address of a job server"
            )
        return config.job_server_jar
    if shutil.which("java") is None:
        raise UsageError(
            f"beam.runner is {config.runner}, but there is no `java` on the PATH: its "
            "job server needs Java 11 or 17; install one, or use the runner portable "
            "with the address of a job server"
        )
    if config.job_server_jar:
        if not Path(config.job_server_jar).is_file():
            raise UsageError(
                f"beam.job_server_jar {config.job_server_jar} is not a file; leave it "
                "out to search the directories of Maven, Beam and `make job-servers`"
            )
        return config.job_server_jar
    artifact = artifact_of(config)
    version = metadata.version("apache-beam")
    name = f"{artifact}-{version}.jar"
    folder = _MAVEN_REPOSITORY / _GROUP.replace(".", "/") / artifact / version
    for path in (
        Path.home() / folder / name,
        Path.home() / _BEAM_CACHE / name,
        # May be of an older Beam: the protocol is the same.
        *assembled(artifact),
    ):
        if path.is_file():
            return str(path)
    raise UsageError(
        f"beam.runner is {config.runner}, but its job server is not on this machine: "
        "assemble it with `make job-servers` (Flink 1.19, Spark 3), get it with `mvn "
        f"dependency:get -Dtransitive=false -Dartifact={_GROUP}:{artifact}:{version}`, "
        "or name the file with beam.job_server_jar"
    )


def artifact_of(config: BeamConfig) -> str:
    """Returns the name that Beam publishes a job server as."""
    if config.runner == "spark":
        return "beam-runners-spark-3-job-server"
    return f"beam-runners-flink-{config.flink_version}-job-server"


def assembled(artifact: str) -> list[Path]:
    """Returns the job servers of `make job-servers`, that of the newest Beam first."""
    return sorted(
        paths.JOB_SERVERS.glob(f"{artifact}-*.jar"),
        key=lambda jar: Version(jar.stem.removeprefix(f"{artifact}-")),
        reverse=True,
    )
