"""The policy of a project: settings that hold for all of its recipes."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from contracts.errors import SettingError, UsageError
from contracts.section import Settings
from contracts.task.definition import TaskConfig
from pipeline.config import problems, typed_yaml

FILE = "pipeline-policy.yaml"
_CODE = Path(__file__).resolve().parent
_WILDCARDS = {"*": ".*", "?": "."}


class Policy(Settings):
    """What the owner of a project requires of every recipe.

    Attributes:
      forbidden_columns: Columns, such as names or e-mail addresses, that no recipe may
        use as a text, as the label or as the weight. `*` stands for any characters,
        `?` for one; case, spaces and punctuation do not matter: `client name` is also
        `Client_Name` and `ClientName`.
      require_commit: Which runs are refused. `committed`: those whose recipe or code
        differ from a commit, are in none, or have settings of the command line.
        `submitted`: also those whose commit is not on `branch`. `none` only warns.
      branch: The branch of reviewed commits, as `git branch -r` prints it, such as
        `origin/main`; None is any branch of a remote.
    """

    forbidden_columns: list[str] = Field(default_factory=list)
    require_commit: Literal["none", "committed", "submitted"] = "none"
    branch: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _check_branch(self) -> Policy:
        if self.branch is not None and self.require_commit != "submitted":
            raise SettingError(
                "branch",
                f"{self.branch!r}, but require_commit is {self.require_commit}",
                advice="leave it out, or set require_commit to submitted",
            )
        return self

    def find_forbidding(self, column: str) -> str | None:
        """Returns the first of `forbidden_columns` that a column matches, or None."""
        name = re.sub("_+", "_", _fold(column))
        for pattern in self.forbidden_columns:
            letters = _fold(pattern, "".join(_WILDCARDS)).replace("_", "")
            parts = [_WILDCARDS.get(letter, letter) for letter in letters]
            if re.fullmatch("_?".join(["", *parts, ""]), name):
                return pattern
        return None


def read_all(recipe: Path) -> dict[Path, Policy]:
    """Returns the policies that hold for a recipe, by their files.

    They are in the directories of the recipe, of the code and of the command, and in
    all directories above them. All of them hold, so that neither a recipe nor a nearer
    file can leave one out.

    Raises:
      UsageError: One of them cannot be read, or has a setting that is not allowed.
    """
    path = Path(os.path.abspath(recipe))
    starts = (path.parent, path.resolve().parent, _CODE, Path.cwd())
    directories = (above for start in starts for above in (start, *start.parents))
    files = dict.fromkeys(directory / FILE for directory in directories)
    return {file: _read(file) for file in files if os.path.lexists(file)}


def refuse_columns(task: TaskConfig, recipe: Path) -> None:
    """Refuses a task with a column that a policy forbids.

    Raises:
      UsageError: A text, the label or the weight is forbidden, or see `read_all`.
    """
    labels = "task.classes" if task.has_label_columns else "task.label_column"
    used = {
        "task.text_columns": task.text_columns,
        labels: task.label_columns,
        "task.weight_column": filter(None, [task.weight_column]),
    }
    columns = [(setting, column) for setting in used for column in used[setting]]
    for file, policy in read_all(recipe).items():
        for setting, column in columns:
            pattern = policy.find_forbidding(column)
            if pattern is not None:
                raise UsageError(
                    setting,
                    f"{column!r}, which forbidden_columns of {file} forbids "
                    f"({pattern!r})",
                    advice=f"name another column in {recipe}",
                    name="E-policy-refused",
                )


def _read(file: Path) -> Policy:
    try:
        return Policy.model_validate(typed_yaml.read(file, Policy))
    except ValidationError as error:
        refused = problems.find(error, Policy, name="E-policy-refused")
    for problem in refused:
        problem.got = f"{problem.got} (in {file})"
    raise problems.combine(refused)


def _fold(name: str, kept: str = "") -> str:
    """Returns a name in lower case and one Unicode normal form, `_` for punctuation."""
    folded = unicodedata.normalize(
        "NFKC", unicodedata.normalize("NFKC", name).casefold()
    )
    # Letters, digits, and marks, such as the vowel signs of Hindi.
    return "".join(
        character
        if unicodedata.category(character)[0] in "LMN" or character in kept
        else "_"
        for character in folded
    )
