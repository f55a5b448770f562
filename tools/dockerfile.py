"""Reads a Dockerfile and its .dockerignore: what is built from what."""

from __future__ import annotations

import dataclasses
import re
import shlex
import string
from pathlib import Path

from docker.utils import exclude_paths


@dataclasses.dataclass(frozen=True)
class Stage:
    """One `FROM` and what follows it.

    Attributes:
      name: What other stages call it; empty if it has no name.
      base: The image, or the stage, that it starts from.
      steps: Its instructions: the keyword in capitals, and the rest of the line.
    """

    name: str
    base: str
    steps: list[tuple[str, str]]

    def all(self, *keywords: str) -> list[str]:
        """Returns what follows these keywords, in order."""
        return [value for keyword, value in self.steps if keyword in keywords]

    def environment(self) -> dict[str, str]:
        """Returns the variables that its own `ENV` instructions set."""
        words = [word for value in self.all("ENV") for word in shlex.split(value)]
        return dict(word.split("=", 1) for word in words)

    def copies(self) -> list[tuple[str, list[str], str]]:
        """Returns what it copies: the stage or "", the sources, the destination."""
        found = []
        for value in self.all("COPY"):
            words = shlex.split(value)
            options = dict(
                word[2:].split("=", 1) for word in words if word.startswith("--")
            )
            *sources, target = [word for word in words if not word.startswith("--")]
            found.append((options.get("from", ""), sources, target))
        return found


@dataclasses.dataclass(frozen=True)
class Dockerfile:
    """A Dockerfile without here-documents, which ours has none of.

    Attributes:
      arguments: The build arguments before the first `FROM`, by name.
      stages: In their order; the last one is what is built.
    """

    arguments: dict[str, str]
    stages: list[Stage]

    @classmethod
    def read(cls, path: Path, **arguments: str) -> Dockerfile:
        """Reads a Dockerfile.

        Args:
          path: The file.
          **arguments: Build arguments, in place of their defaults.

        Returns:
          Its content, with build arguments in `FROM` and `USER` filled in.
        """
        known: dict[str, str] = {}
        stages: list[Stage] = []
        text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
        for line in text.replace("\\\n", " ").splitlines():
            keyword, _, value = line.strip().partition(" ")
            keyword, value = keyword.upper(), value.strip()
            if keyword in ("FROM", "USER"):
                value = string.Template(value).safe_substitute(known)
            if keyword == "ARG":
                name, _, default = value.partition("=")
                known[name] = arguments.get(name, default)
            if keyword == "FROM":
                base, _, name = value.partition(" AS ")
                stages.append(Stage(name, base, []))
            elif keyword and stages:
                stages[-1].steps.append((keyword, value))
        return cls(known, stages)

    def lineage(self) -> list[Stage]:
        """Returns the stages that the image is made of, from the first to the last."""
        named = {stage.name: stage for stage in self.stages if stage.name}
        found = [self.stages[-1]]
        while found[0].base in named:
            found.insert(0, named[found[0].base])
        return found

    def bases(self) -> list[str]:
        """Returns the images from elsewhere that it starts from."""
        names = {stage.name for stage in self.stages}
        return [stage.base for stage in self.stages if stage.base not in names]

    def sources(self) -> list[str]:
        """Returns the paths that it copies out of the build context."""
        return [
            source
            for stage in self.stages
            for origin, sources, _ in stage.copies()
            if not origin
            for source in sources
        ]


def build_context(root: Path) -> list[str]:
    """Returns the files that `.dockerignore` lets into a build, relative to root."""
    lines = (root / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line.strip() and not line.startswith("#")]
    # The library lets in the Dockerfile and the patterns, as every builder does; both
    # are read before the build and can be copied by none of ours.
    allowed = exclude_paths(str(root), patterns) - {"Dockerfile", ".dockerignore"}
    return sorted(path for path in allowed if (root / path).is_file())
