"""What a run is made of: the commits of recipe and code, libraries and encoder."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from contracts import fingerprint
from contracts.commits import Commit, Commits
from contracts.errors import UsageError
from pipeline.config import policy
from pipeline.config.orchestrators import ORCHESTRATORS
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import Config
from pipeline.inputs.encoder_source import ResolvedEncoder
from pipeline.operations.record import RunRecord, is_run_id, read_record

# The packages that a run imports.
_PACKAGES = ("components", "contracts", "ingest", "modules", "pipeline", "report")
# Settings of the command line that change where a run reads and writes alone.
_LOCATIONS = (
    "beam.",
    *(f"{name}." for name in ORCHESTRATORS),
    "data.source",
    "data.span",
    "output",
)
_TIMEOUT_SECONDS = 2  # of all calls
_REQUIRED_TIMEOUT_SECONDS = 60
_MOST_CHANGES = 100  # a property of ML Metadata holds 64 KiB
_REMOTES = "refs/remotes/"
_LIBRARIES = (
    *fingerprint.TRAINER_LIBRARIES,
    "tfx",
    "tensorflow-data-validation",
    "tensorflow-model-analysis",
    "apache-beam",
    "numpy",
)
_FINGERPRINT_DIGITS = 12

logger = logging.getLogger(__name__)

_Git = Callable[..., bytes]


def check_commits(config: Config) -> Commits:
    """Returns the commits of a run, or refuses it by a policy.

    Raises:
      UsageError: A policy's `require_commit` is violated.
    """
    recipe = config.origin.file or Path(policy.FILE)
    demanding = {
        file: rules
        for file, rules in policy.read_all(recipe).items()
        if rules.require_commit != "none"
    }
    branches = {rules.branch for rules in demanding.values() if rules.branch}
    timeout = _REQUIRED_TIMEOUT_SECONDS if demanding else _TIMEOUT_SECONDS
    commits = find_commits(config, branches=branches, timeout_seconds=timeout)
    for file, rules in demanding.items():
        problems = commits.uncommitted
        if config.origin.file is None:
            problems += ["the recipe is in no file"]
        if rules.require_commit == "submitted":
            branch = rules.branch or "a branch of a remote"
            problems += [
                f"commit {commit} is not on {branch}"
                for commit in filter(None, commits.parts.values())
                if not commit.is_submitted
            ]
        if problems:
            reviewed = ", have them reviewed" if rules.branch else ""
            raise UsageError(
                str(file),
                f"require_commit is {rules.require_commit}, but "
                f"{'; '.join(dict.fromkeys(problems))}",
                advice=f"commit the changes{reviewed}, and run from that commit, "
                "without settings on the command line",
                name="E-policy-refused",
            )
    return commits


def warn_of_commits(commits: Commits) -> None:
    """Logs a warning of whatever is in no commit, or in none that others have."""
    for warning in commits.warnings:
        logger.warning(warning)


def find_commits(
    config: Config,
    *,
    code: Path = REPOSITORY,
    branches: Collection[str] = (),
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> Commits:
    """Returns the commits of a recipe and of the code.

    A commit is None if there is no git, or it takes too long, or no commit has one of
    the files: an environment may be in the repository of another project.

    Args:
      config: The settings.
      code: The directory of the packages that a run imports.
      branches: Branches of remotes that must all contain a submitted commit; if empty,
        one of all must.
      timeout_seconds: Time of all calls of git.
    """
    git = _git(timeout_seconds)
    overrides = [
        key for key in config.origin.overrides if not key.startswith(_LOCATIONS)
    ]
    commits = Commits(
        code=_find_commit(code, _PACKAGES, branches, git, is_recipe=False),
        overrides=overrides,
    )
    if config.origin.file is not None:
        file = config.origin.file.resolve()
        commits.recipe = _find_commit(
            file.parent, [file.name], branches, git, is_recipe=True
        )
        commits.recipe_file = file.name
    return commits


def find_code() -> Commit | None:
    """Returns the commit of all code of this program; None if git has none of it."""
    git = _git(_TIMEOUT_SECONDS)
    return _find_commit(
        REPOSITORY,
        (*fingerprint.FIRST_PARTY, "bert_runtime", "serving"),
        (),
        git,
        is_recipe=False,
    )


def _git(timeout_seconds: float) -> _Git:
    """Returns a function that runs git; `timeout_seconds` is the time of all calls."""
    # A hook of git sets variables that name another repository.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    end = time.monotonic() + timeout_seconds

    def git(directory: Path, *arguments: str) -> bytes:
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(directory), *arguments],
            env=environment,
            check=True,
            capture_output=True,
            timeout=max(0.0, end - time.monotonic()),
        ).stdout

    return git


def _find_commit(
    directory: Path,
    names: Sequence[str],
    branches: Collection[str],
    git: _Git,
    *,
    is_recipe: bool,
) -> Commit | None:
    try:
        commit = git(directory, "rev-parse", "--verify", "HEAD").decode().strip()
        # `:(literal)`: a name may have the characters of a pattern.
        paths = ["--", *(f":(literal){name}" for name in names)]
        if not is_recipe and not git(directory, "ls-files", *paths):
            return None
        options = ["--porcelain", "-z", "--untracked-files=all", "--no-renames"]
        if is_recipe:  # ignored files next to the code are caches
            options.append("--ignored")
        lines = git(directory, "status", *options, *paths).split(b"\0")
        changes = [line[3:].decode(errors="replace") for line in lines if line]
        del changes[_MOST_CHANGES:]
    except (OSError, subprocess.SubprocessError):
        return None
    is_submitted = None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        # Other references, such as pull/1/merge of a checkout for a check, are not of
        # a remote.
        remotes = git(directory, "remote").decode().split()
        name = "--format=%(refname)"
        patterns = [f"{_REMOTES}{remote}/" for remote in remotes]
        if patterns:
            options = ["for-each-ref", "--contains", commit, name, *patterns]
            refs = git(directory, *options).decode().split()
            containing = {ref.removeprefix(_REMOTES) for ref in refs}
            is_submitted = bool(containing) and containing.issuperset(branches)
    return Commit(id=commit, changes=changes, is_submitted=is_submitted)


def find_dependencies(encoder: ResolvedEncoder) -> dict[str, str]:
    """Returns the versions of Python, of libraries, and the encoder's fingerprint."""
    libraries = fingerprint.library_versions(_LIBRARIES)
    identity = encoder.fingerprint[:_FINGERPRINT_DIGITS]
    return {"Python": platform.python_version(), **libraries, "encoder": identity}


def warn_of_changed_dependencies(record: RunRecord, paths: OutputPaths) -> None:
    """Logs a warning of each dependency of a run that differs from the run before."""
    names = filter(is_run_id, os.listdir(paths.runs))
    runs = [read_record(paths.run(name)) for name in names if name != record.id]
    for previous in sorted(runs, key=lambda run: run.id, reverse=True):
        if previous.recipe == record.recipe and previous.dependencies:
            for name, value in record.dependencies.items():
                before = previous.dependencies.get(name, value)
                if value != before:
                    logger.warning(
                        "%s is %s; it was %s in run %s",
                        name,
                        value or "not installed",
                        before or "not installed",
                        previous.id,
                    )
            return
