"""The commit of the code that a run executes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pydantic

_TIMEOUT_SECONDS = 2  # of all calls


class Commit(pydantic.BaseModel):
    """A commit.

    Attributes:
      id: Its hash.
      has_changes: Whether tracked files differed from it, or others were not ignored.
    """

    id: str
    has_changes: bool

    def __str__(self) -> str:
        return f"{self.id[:12]}{', with changes' if self.has_changes else ''}"


def find_commit(file: Path = Path(__file__)) -> Commit | None:
    """Returns the commit of a file's repository.

    Args:
      file: A file of the code.

    Returns:
      None if there is no git, or it takes longer than 2 s, or no commit has the file:
      an environment may be in the repository of another project.
    """
    # A hook of git sets variables that name another repository.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    end = time.monotonic() + _TIMEOUT_SECONDS

    def git(*arguments: str) -> bytes:
        return subprocess.run(
            ["git", "--no-optional-locks", "-C", str(file.parent), *arguments],
            env=environment,
            check=True,
            capture_output=True,
            timeout=max(0.0, end - time.monotonic()),
        ).stdout

    try:
        git("ls-files", "--error-unmatch", file.name)
        commit = git("rev-parse", "--verify", "HEAD").decode().strip()
        return Commit(id=commit, has_changes=bool(git("status", "--porcelain")))
    except (OSError, subprocess.SubprocessError):
        return None
