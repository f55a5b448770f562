"""The commits of a run's recipe and code, which its record and its model carry."""

from __future__ import annotations

from collections.abc import Iterable

import pydantic

_SHOWN = 3
_SHOWN_ID = 12


class Commit(pydantic.BaseModel):
    """A commit of a git repository.

    Attributes:
      id: Its hash.
      changes: Files of the run that differ from it or are in no commit, at most 100,
        relative to the repository.
      is_submitted: Whether a branch of a remote contains it: each branch that a policy
        names, or any. None if the repository has no remote.
    """

    id: str
    changes: list[str] = []
    is_submitted: bool | None = None

    def __str__(self) -> str:
        return f"{self.id[:_SHOWN_ID]}{', with changes' if self.changes else ''}"


class Commits(pydantic.BaseModel):
    """What a run executes.

    Attributes:
      code: The commit of the code; None if git has none.
      recipe: That of the recipe, often the same.
      recipe_file: The name of the recipe's file; empty if settings had none.
      overrides: Settings of the command line, which are not in the recipe.
    """

    code: Commit | None = None
    recipe: Commit | None = None
    recipe_file: str = ""
    overrides: list[str] = []

    @property
    def parts(self) -> dict[str, Commit | None]:
        """The commit of each part, by the name of the part."""
        recipe = {f"the recipe {self.recipe_file}": self.recipe}
        return {"the code": self.code, **(recipe if self.recipe_file else {})}

    @property
    def uncommitted(self) -> list[str]:
        """What is in no commit, a sentence each."""
        unknown = [name for name, commit in self.parts.items() if commit is None]
        sentences = [f"git has no commit of {' and '.join(unknown)}"] if unknown else []
        changes: dict[str, dict[str, None]] = {}
        for commit in filter(None, self.parts.values()):
            if commit.changes:
                changes.setdefault(str(commit.id), {}).update(
                    dict.fromkeys(commit.changes)
                )
        for number, files in changes.items():
            verb = "differs" if len(files) == 1 else "differ"
            sentences.append(f"{_join(files)} {verb} from commit {number[:_SHOWN_ID]}")
        if self.overrides:
            names = _join(self.overrides)
            sentences.append(f"settings of the command line are in no commit: {names}")
        return sentences

    @property
    def unsubmitted(self) -> list[str]:
        """Which commits are on no branch of a remote, a sentence each."""
        return [
            f"commit {number[:_SHOWN_ID]} is on no branch of a remote"
            for number in dict.fromkeys(
                commit.id
                for commit in filter(None, self.parts.values())
                if commit.is_submitted is False
            )
        ]

    @property
    def warnings(self) -> list[str]:
        """Why the run cannot be repeated from commits that others have."""
        return [*self.uncommitted, *self.unsubmitted]


def _join(names: Iterable[str]) -> str:
    names = list(names)
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
