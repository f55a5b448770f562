"""Finds Beam's job servers for Flink and Spark, which are Java programs."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

from packaging.version import Version

from contracts.errors import UsageError
from pipeline.config import paths
from pipeline.config.beam import BeamConfig

_GROUP = "org.apache.beam"
_PORTABLE = "use `beam.runner=portable` and the address of a job server"


def find_jar(config: BeamConfig, *, is_here: bool) -> str:
    """Returns the path of a job server, which Beam would otherwise download.

    Args:
      config: Settings whose runner is `flink` or `spark`.
      is_here: Whether it runs on this machine; in a cluster's container, the setting
        `job_server_jar` is required.

    Raises:
      UsageError: The job server, or the Java to run it, is missing.
    """
    if not is_here:
        if config.job_server_jar is None:
            raise _not_found(
                f"not set, but required by the runner {config.runner} in a container",
                f"name the file in the image, or {_PORTABLE}",
            )
        return config.job_server_jar
    if shutil.which("java") is None:
        raise UsageError(
            "beam.runner",
            f"{config.runner}, whose job server needs Java 11 or 17, but `java` is not "
            "on the PATH",
            advice=f"install one, or {_PORTABLE}",
            name="E-job-server-not-found",
        )
    if config.job_server_jar:
        if not Path(config.job_server_jar).is_file():
            raise _not_found(
                f"{config.job_server_jar} is not a file",
                "leave it out to search the directories of Maven, Beam and "
                "`make job-servers`",
            )
        return config.job_server_jar
    artifact = artifact_of(config)
    version = metadata.version("apache-beam")
    name = f"{artifact}-{version}.jar"
    home = Path.home()
    group = _GROUP.replace(".", "/")
    for path in (
        home / ".m2" / "repository" / group / artifact / version / name,  # of Maven
        home / ".apache_beam" / "cache" / "jars" / name,
        # They may be of an older Beam: the protocol is the same.
        *assembled(artifact),
    ):
        if path.is_file():
            return str(path)
    raise _not_found(
        f"the job server of the runner {config.runner} is not on this machine",
        "assemble it with `make job-servers` (Flink 1.19, Spark 3), get it with `mvn "
        f"dependency:get -Dtransitive=false -Dartifact={_GROUP}:{artifact}:{version}`, "
        "or use `beam.job_server_jar=FILE`",
    )


def _not_found(problem: str, advice: str) -> UsageError:
    return UsageError(
        "beam.job_server_jar", problem, advice=advice, name="E-job-server-not-found"
    )


def artifact_of(config: BeamConfig) -> str:
    """Returns the name of a job server in Maven."""
    if config.runner == "spark":
        return "beam-runners-spark-3-job-server"
    return f"beam-runners-flink-{config.flink_version}-job-server"


def assembled(artifact: str) -> list[Path]:
    """Returns the job servers of `make job-servers`, the newest Beam first."""
    return sorted(
        paths.JOB_SERVERS.glob(f"{artifact}-*.jar"),
        key=lambda jar: Version(jar.stem.removeprefix(f"{artifact}-")),
        reverse=True,
    )
