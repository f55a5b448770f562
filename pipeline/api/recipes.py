"""A recipe from a file, or from a user's own data."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contracts import wording
from contracts.errors import DataRefusedError, UsageError
from contracts.settings.data import TEST
from contracts.storage import uris
from ingest.working_directory import WorkingDirectory
from modules import environment
from pipeline.api import data_frames
from pipeline.api.arguments import Settings, TestSize, checked
from pipeline.api.data_frames import Data, FrameFile
from pipeline.api.quiet import quiet
from pipeline.config import recipe
from pipeline.config.paths import DEFAULT_CONFIG, OutputPaths
from pipeline.config.recipe import Config
from pipeline.onboarding.data_set import Choices, DataSet, Report, look_at
from pipeline.onboarding.guess import Kind

if TYPE_CHECKING:
    from pipeline.onboarding import inspection as details
    from pipeline.onboarding.create import Project
    from pipeline.onboarding.inspection import Progress

logger = logging.getLogger(__name__)


class Inspection:
    """What data hold, what was guessed from them, and what a run would refuse.

    Attributes:
      guesses: Setting, value and reason of each guess.
      warnings: What a run would warn about.
      refused: Why a run would refuse the data; empty if it would not.
      details: The columns, the splits, their lengths and their labels.
    """

    def __init__(self, project: Project) -> None:
        self.guesses = list(project.settings.table())
        self.details = project.inspection
        self.warnings = project.inspection.warnings
        self.refused = project.inspection.refused

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{name} {split.rows:,}" for name, split in self.details.splits.items()
        )
        return (
            f"Inspection({counts}; {wording.count(len(self.warnings), 'warning')}, "
            f"{wording.count(len(self.refused), 'refusal')})"
        )

    def _repr_html_(self) -> str:
        from pipeline.api import html

        return html.render("inspection.html.jinja", inspection=self)


class Recipe:
    """The settings of a run, from a file.

    Args:
      path: A YAML file.
      settings: Values by dotted key, such as `trainer.epochs`, that replace those of
        the file.

    Attributes:
      path: The file.
      settings: The typed settings, validated.
      inspection: What `from_data` found in the data; None for a recipe that was read.

    Raises:
      UsageError: The file cannot be read, or a key or a value is not allowed.
    """

    @checked
    def __init__(self, path: str | Path, settings: Settings | None = None) -> None:
        self.path = Path(path)
        self._overrides = dict(settings or {})
        self.settings: Config = recipe.load_config(path, self._overrides)
        self.inspection: Inspection | None = None

    @classmethod
    @checked
    def from_data(
        cls,
        data: Data,
        folder: str | Path,
        *,
        text: str | Sequence[str] = (),
        label: str | None = None,
        kind: Kind | None = None,
        group: str | None = None,
        columns: str | Sequence[str] = (),
        test_size: TestSize | None = None,
        encoder: str | Path | None = None,
        settings: Settings | None = None,
    ) -> Recipe:
        """Writes a project for your own data, as the command `init` does.

        Columns, classes and settings are guessed, unless they are given.

        Args:
          data: The rows: a DataFrame, whose index is ignored, a file, or a directory
            of splits.
          folder: The new folder of the project: recipe, README and splits.
          text: The text column, or both of a pair.
          label: The label column.
          kind: Whether the label is a class, a score, or any number of labels.
          group: A column, such as an author; rows with equal values stay in one split.
          columns: The names of the columns of CSV and TSV without a header, or a text
            with commas between them; by default, they are in the first line.
          test_size: Share of the rows of the split `test`.
          encoder: The pre-trained encoder; None is a small BERT for English.
          settings: Values by dotted key. Those of `data` apply to reading, the others
            to the recipe.

        Returns:
          The recipe, with the inspection of the data.

        Raises:
          DataRefusedError: A run would refuse the data; nothing was written.
          UsageError: The data cannot be read, several guesses are equally good, the
            folder exists, or a setting is not allowed.
        """
        project = make_project(
            data,
            Path(folder),
            text=text,
            label=label,
            kind=kind,
            group=group,
            columns=columns,
            test_size=test_size,
            encoder=encoder,
            overrides=dict(settings or {}),
        )
        if project.inspection.refused:
            raise refusal(project.inspection, "\n".join(project.inspection.refused))
        from pipeline.onboarding.create import RECIPE_FILE

        written = cls(project.folder / RECIPE_FILE)
        written.inspection = Inspection(project)
        return written

    @checked
    def with_settings(self, settings: Settings) -> Recipe:
        """Returns the recipe with other settings.

        Args:
          settings: Values by dotted key, such as `trainer.epochs`.

        Raises:
          UsageError: A key or a value is not allowed.
        """
        changed = Recipe(self.path, {**self._overrides, **settings})
        changed.inspection = self.inspection
        return changed

    @property
    def output(self) -> Path:
        """The directory of everything that its runs write."""
        return OutputPaths.of(self.settings).root

    def __repr__(self) -> str:
        return f"Recipe({str(self.path)!r}, name={self.settings.name!r})"

    def _repr_html_(self) -> str:
        from pipeline.api import html

        return html.render(
            "recipe.html.jinja", recipe=self, yaml=self.settings.to_yaml()
        )


@checked
def inspect(
    data: Data,
    *,
    text: str | Sequence[str] = (),
    label: str | None = None,
    kind: Kind | None = None,
    group: str | None = None,
    columns: str | Sequence[str] = (),
    test_size: TestSize | None = None,
    encoder: str | Path | None = None,
    settings: Settings | None = None,
) -> Inspection:
    """Describes data, and what a run would refuse or warn about; writes nothing.

    The arguments are those of `Recipe.from_data`.

    Returns:
      The guesses, the columns, the splits and the findings.

    Raises:
      UsageError: The data cannot be read, or several guesses are equally good.
    """
    return Inspection(
        make_project(
            data,
            None,
            text=text,
            label=label,
            kind=kind,
            group=group,
            columns=columns,
            test_size=test_size,
            encoder=encoder,
            overrides=dict(settings or {}),
        )
    )


def make_project(
    data: Data,
    target: Path | None,
    *,
    text: str | Sequence[str],
    test_size: TestSize | None,
    encoder: str | Path | None,
    overrides: dict[str, Any],
    report: Report = logger.info,
    progress: Progress = lambda rows: None,
    **choices: Any,
) -> Project:
    """Returns the project of data, and writes it unless a run would refuse them.

    Args:
      data: A DataFrame, a file, or a directory of splits.
      target: The new folder; None writes nothing.
      text: The text column, or both of a pair.
      test_size: Share of the rows of the split `test`; None is the default.
      encoder: The source of the encoder; None uses the sample's.
      overrides: Settings by dotted key.
      report: Called with a line for the user.
      progress: Called with the number of rows so far.
      **choices: Other values of `Choices`.

    Raises:
      UsageError: As of `Recipe.from_data`.
    """
    texts = (text,) if isinstance(text, str) else text
    chosen = Choices(texts, **choices)
    source = None if encoder is None else str(encoder)
    with contextlib.ExitStack() as stack:
        stack.enter_context(environment.collecting_rarely())
        if target is not None:
            uris.refuse_pattern("folder", os.path.abspath(target))
            creating = WorkingDirectory.creating(target, report)
            working = stack.enter_context(creating)
        looking = _look_at(data, chosen, test_size, overrides, report)
        data_set, frame = stack.enter_context(looking)
        stack.enter_context(quiet())
        from pipeline.onboarding import create

        if target is None:
            project = create.inspect_data_set(
                data_set, source, overrides, report, progress
            )
        else:
            project = create.create_project(
                target, working, data_set, source, overrides, report, progress
            )
        if frame is not None:
            frame.name_rows_of(project)
        return project


def refusal(
    inspection: details.Inspection, reasons: str | None = None
) -> DataRefusedError:
    """Returns the error of refused data, with what the user can do.

    Args:
      inspection: The inspection of the data.
      reasons: Why the data are refused; None if the user has seen it.
    """
    from modules.data import judgment

    advice = "nothing was written"
    if inspection.has_refused_bad_rows:
        advice += "; to leave bad rows out, use `data.on_bad_rows=skip`"
    if judgment.SMALL_GATE in inspection.refused_kinds:
        advice += "; to accept a coarser gate, use `data_gate.max_interval=0.2`"
    return DataRefusedError(got=reasons, advice=advice, name="E-data-refused")


@contextlib.contextmanager
def _look_at(
    data: Data,
    choices: Choices,
    test_size: TestSize | None,
    overrides: dict[str, Any],
    report: Report,
) -> Iterator[tuple[DataSet, FrameFile | None]]:
    """Reads data, and guesses their task; adds the choices to the overrides.

    A DataFrame is in a temporary file as long as the context is open.
    """
    if test_size is not None:
        overrides["data.test_size"] = test_size
    if choices.group is not None:
        overrides["data.group_column"] = choices.group
    if choices.columns:
        names = choices.columns
        overrides["data.columns"] = names if isinstance(names, str) else list(names)
    settings = recipe.load_data(DEFAULT_CONFIG, overrides)
    frame: FrameFile | None = None
    with contextlib.ExitStack() as temporary:
        if not isinstance(data, (str, Path)):
            if settings.columns:
                raise UsageError(
                    "columns",
                    "it names the columns of files without a header",
                    advice="rename those of a DataFrame with "
                    "data.rename(columns={OLD: NEW})",
                    name="E-column-missing",
                )
            directory = temporary.enter_context(tempfile.TemporaryDirectory())
            frame = data_frames.write(data, Path(directory))
            temporary.enter_context(frame.naming_rows())
            named = (overrides.get(f"task.{kind}_column") for kind in ("id", "weight"))
            columns = [*choices.text, choices.label, settings.group_column, *named]
            frame.refuse([*columns, *settings.slice_columns])
            try:
                data_set = look_at(str(frame.path), settings, choices, overrides)
            except UsageError:  # also without the columns that cannot be written
                frame.refuse(frame.problems)
                raise
            task = data_set.task
            frame.refuse([*task.text_columns, *task.label_columns, task.id_column])
            data_set = dataclasses.replace(data_set, origin="a pandas.DataFrame")
        else:
            data_set = look_at(str(data), settings, choices, overrides)
        has_test = not data_set.needs_split or TEST in data_set.source.files
        if has_test and test_size is not None:
            splits = ", ".join(map(str, data_set.source.files))
            raise UsageError(
                "test_size",
                f"{data} already has the splits {splits}",
                advice="leave it out: it applies to rows without splits",
                name="E-options-conflict",
            )
        for line in data_set.source.describe_reading():
            report(line)
        yield data_set, frame
