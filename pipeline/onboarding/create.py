"""Writes a project from a user's own data: recipe, README and splits."""

from __future__ import annotations

import csv
import dataclasses
import operator
import os
import re
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from contracts import wording
from contracts.errors import UsageError
from contracts.packing import MIN_SEQ_LENGTH
from contracts.settings.data import TEST
from contracts.settings.data_gate import DataGateConfig
from contracts.task import label_cells
from contracts.task.definition import EVAL_SPLIT, TRAIN_SPLIT, TaskConfig, input_name
from ingest.examples.bad_rows import SKIPPED_FILE, BadRows
from ingest.examples.data_card import DataCard, SplitCard, describe_splitting
from ingest.examples.halving import Halving
from ingest.examples.splits import GoodRow, Report
from ingest.working_directory import WorkingDirectory
from modules.encoder.directory import open_without_vocabulary
from pipeline.config import policy, recipe
from pipeline.config.invocation import command
from pipeline.config.paths import DEFAULT_CONFIG, OutputPaths
from pipeline.inputs import encoder_source
from pipeline.inputs.resolved_checks import resolve_checks
from pipeline.onboarding.data_set import DataSet
from pipeline.onboarding.guess import CHOSEN
from pipeline.onboarding.inspection import Inspection, Inspector, Progress
from pipeline.onboarding.recipe_settings import (
    MOST_CUT,
    ProjectSettings,
    add_class_weights,
    add_gate,
    choose_epochs,
    choose_length,
)

RECIPE_FILE = "recipe.yaml"
_DATA_FOLDER = "data"
_OUTPUT_FOLDER = "output"
_BASE_SIZE = 768  # hidden size of BERT-base, for which the default rate is
# Smaller encoders learn faster (Turc et al. 2019; configs/mrpc_minilm.yaml).
_SMALL_ENCODER_RATE = 1e-4
_DATA_KEPT = ("data.license", "data.schema_file", "data.slice_columns")


@dataclasses.dataclass(frozen=True)
class Project:
    """A project from a user's data; it is not written if a run would refuse the data.

    Attributes:
      inspection: What the data hold, and what a run would refuse.
      skipped_file: The file with the skipped rows; None if none was skipped.
      is_split: Whether the splits were made here.
    """

    folder: Path
    settings: ProjectSettings
    inspection: Inspection
    skipped_file: Path | None
    is_split: bool


def create_project(
    target: Path,
    working: WorkingDirectory,
    data_set: DataSet,
    encoder: str | None,
    overrides: Mapping[str, Any],
    report: Report,
    progress: Progress = lambda rows: None,
) -> Project:
    """Writes a project that can be run without edits.

    The folder appears when it is complete, unless a run would refuse the data.

    Raises:
      UsageError: A setting is not allowed, or the data lack `evaluator.split`.
    """
    builder = _Builder(target, working.path, data_set, overrides, report)
    project = builder.build(encoder, progress)
    if not project.inspection.refused:
        working.publish(target)
    return project


def inspect_data_set(
    data_set: DataSet,
    encoder: str | None,
    overrides: Mapping[str, Any],
    report: Report,
    progress: Progress = lambda rows: None,
) -> Project:
    """Returns the project that would be written; see `create_project`."""
    with tempfile.TemporaryDirectory() as directory:
        target = Path("project")
        builder = _Builder(target, Path(directory), data_set, overrides, report)
        return builder.build(encoder, progress)


class _Builder:
    def __init__(
        self,
        target: Path,
        directory: Path,
        data_set: DataSet,
        overrides: Mapping[str, Any],
        report: Report,
    ) -> None:
        self._target = target
        self._directory = directory
        self._data_set = data_set
        self._task = data_set.task
        # Splits that are written here may rename the source's columns.
        self._text_columns = (
            _input_names(
                self._task,
                [*data_set.settings.slice_columns, *self._task.label_columns],
            )
            if data_set.needs_split
            else self._task.text_columns
        )
        # How the source was read does not apply to the splits that are written.
        self._overrides = {
            key: value
            for key, value in overrides.items()
            if not data_set.needs_split
            or not (
                key.startswith("data.")
                or key in ("task.labels", "task.label_separator")
            )
            or key in _DATA_KEPT
        }
        self._report = report
        self._settings = ProjectSettings({}, dict(data_set.guess.reasons))

    def build(self, encoder: str | None, progress: Progress) -> Project:
        settings, data_set, task = self._settings, self._data_set, self._task
        # Settings that do not depend on the rows.
        # A name has lower-case letters, digits, _ and -, and starts with a letter.
        folder = self._target.resolve().name.lower()
        name = re.sub(r"[^a-z0-9_-]+", "-", folder).strip("-")
        if not name[:1].isalpha():
            name = f"project-{name}".rstrip("-")
        settings.set("name", name, "from the name of the folder")
        reason = ""
        if self._text_columns != task.text_columns:
            reason = "names of a model's inputs have only letters, digits, _, . and -"
        settings.set("task.text_columns", self._text_columns, reason)

        def copy(*keys: str) -> None:
            for key in keys:
                if getattr(task, key) != getattr(TaskConfig(), key):
                    settings.set(f"task.{key}", getattr(task, key))

        copy("kind")
        reason = (
            "of the Examples: 0 or 1 for each label" if task.has_label_columns else ""
        )
        settings.set("task.label_column", task.label_column, reason)
        copy("id_column", "weight_column")
        if task.label_kind.names:
            settings.set("task.classes", task.classes)
        if task.label_separator is not None:
            reason = "separates the labels of a row"
            separator = task.label_separator
            if data_set.needs_split:  # `describe_label` joins them in `_write_split`
                separator = label_cells.SEPARATOR
            settings.set("task.label_separator", separator, reason)
        if task.label_kind.names and not task.has_label_columns:
            # Splits that are written here have names.
            labels = "name" if data_set.needs_split else task.labels
            reason = "a label in the data is the name of its class, not its index"
            if labels == "index":
                reason = f"the labels in the data are 0 to {task.outputs - 1}"
            settings.set("task.labels", labels, reason)
        copy("label_range")
        settings.set("task.metric", task.metric)
        if data_set.needs_split:
            sizes, group = data_set.settings, data_set.settings.group_column
            shares = f"{sizes.eval_size:.0%} of the rows are in eval"
            if TEST not in data_set.source.files:
                shares = f"{sizes.test_size:.0%} of the rows are in test, {shares}"
            kept = f"equal texts and rows of one {group}" if group else "equal texts"
            reason = f"{shares}; {kept} are in one split"
            settings.set("data.source", _DATA_FOLDER, reason)
        else:
            source = os.path.abspath(data_set.source.location)
            settings.set("data.source", source, "the source has splits")
        if encoder is None:
            default = recipe.load_config(DEFAULT_CONFIG).encoder
            reason = "a small BERT for English, uncased; choose another with --encoder"
            settings.set("encoder.source", default.source, reason)
            settings.set("encoder.sha256", default.sha256, "of the encoder's files")
        else:
            is_directory = os.path.isdir(encoder)
            source = os.path.abspath(encoder) if is_directory else encoder
            settings.set("encoder.source", source, CHOSEN)
        has_windows = any(
            key.startswith("preprocessing.long_text") and value is not None
            for key, value in self._overrides.items()
        )
        config = self._validate(
            {
                # Both follow from the rows, which are not read yet.
                "evaluator.thresholds": {task.metric: 0.0},
                # Longer than any window.
                "preprocessing.max_seq_length": sys.maxsize
                if has_windows
                else MIN_SEQ_LENGTH,
                **self._overrides,
            }
        )
        paths = OutputPaths(self._directory / _OUTPUT_FOLDER, config.name)
        resolved = encoder_source.resolve_encoder(config, paths, self._report)
        columns = config.data.slice_columns
        inspector = Inspector(task, resolved.vocab_file, columns, progress)
        on_bad_rows = data_set.settings.on_bad_rows
        with BadRows(on_bad_rows, self._directory) as bad_rows:
            halving = config.halving
            if halving and "evaluator.thresholds" not in self._overrides:
                halving = _GuessedHalving((), halving.max_interval)
            splits = self._read_rows(inspector, bad_rows, halving)
        gate = config.with_split(splits).evaluator.split
        assert gate is not None
        encoder_directory = open_without_vocabulary(resolved.directory)
        longest = encoder_directory.max_seq_length
        if config.preprocessing.long_text:
            longest = sys.maxsize  # windows do not limit the text
        # Settings that depend on the rows.
        train, gated = inspector.facts[TRAIN_SPLIT], inspector.facts[gate]
        if len(train):
            length = choose_length(train.lengths, longest)
            cut = float(np.mean(train.lengths > length))
            reason = "cuts at most one row in 200"
            if cut > MOST_CUT:
                reason = f"the encoder's limit; {cut:.0%} of the rows are cut"
                if task.has_single_text:
                    reason += "; with preprocessing.long_text it may be higher"
            reason += f"; the longest has {wording.count(train.lengths.max(), 'token')}"
            settings.set("preprocessing.max_seq_length", length, reason)
        rows = splits[TRAIN_SPLIT]
        settings.set(
            "trainer.epochs", choose_epochs(rows), wording.count(rows, "training row")
        )
        if (size := int(encoder_directory.config["hidden_size"])) < _BASE_SIZE:
            reason = f"the encoder's hidden size, {size}; BERT-base has {_BASE_SIZE}"
            settings.set("trainer.learning_rate", _SMALL_ENCODER_RATE, reason)
        reason = wording.count(splits[gate], "row")
        if gate == EVAL_SPLIT:
            reason += ", which also choose the checkpoint and the threshold"
        elif gate == TEST not in data_set.source.files and not data_set.needs_split:
            reason += ": half of eval, whose other half chooses the checkpoint"
        settings.set("evaluator.split", gate, reason)
        counts = inspector.count_labels(gate)
        if len(gated):
            add_gate(settings, task, counts, gated.labels, config.data_gate)
        else:
            settings.set("evaluator.thresholds", {task.metric: 0.0})
        if metric := task.label_kind.suggested_maximum:
            reason = (
                "one threshold for all labels; few probabilities of rare ones reach 0.5"
            )
            settings.set("task.decision", {"maximize": metric}, reason)
        elif task.label_kind.names and len(train):
            counts = inspector.count_labels(TRAIN_SPLIT)
            add_class_weights(settings, counts, len(train))
        for key, value in self._overrides.items():
            settings.set(key, value, CHOSEN)
        config = self._validate({})
        checks = resolve_checks(config, paths).of_data.configure()
        inspection = inspector.finish(
            config.with_split(splits),
            bad_rows,
            data_set.columns.values(),
            checks,
        )
        if data_set.needs_split:
            DataCard(
                source=data_set.origin,
                fingerprint=data_set.source.sha256,
                files=data_set.source.describe_reading(),
                splits={
                    name: SplitCard(rows=rows, bad=bad_rows.counts[name])
                    for name, rows in splits.items()
                },
                splitting=describe_splitting(data_set.settings),
                on_bad_rows=data_set.settings.on_bad_rows,
                license=data_set.settings.license,
            ).write(self._directory / _DATA_FOLDER)
        else:
            (self._directory / _DATA_FOLDER).rmdir()
        (self._directory / ".gitignore").write_text(f"{_OUTPUT_FOLDER}/\n", "utf-8")
        policies = policy.read_all(self._target / RECIPE_FILE)
        readme = _readme(self._target, settings, task, policies)
        (self._directory / "README.md").write_text(readme, encoding="utf-8")
        is_skipped = bad_rows.skips and bad_rows.counts
        skipped_file = self._target / SKIPPED_FILE if is_skipped else None
        return Project(
            self._target,
            settings,
            inspection,
            skipped_file,
            is_split=data_set.needs_split,
        )

    def _read_rows(
        self, inspector: Inspector, bad_rows: BadRows, halving: Halving | None
    ) -> dict[str, int]:
        """Inspects all rows, and writes the splits; returns their good rows."""
        data_set, counts = self._data_set, {}
        (self._directory / _DATA_FOLDER).mkdir()
        opened = data_set.open(self._report, bad_rows, halving)
        for name, good_rows in opened.items():
            rows = inspector.add(name, self._number(good_rows))
            if data_set.needs_split:
                path = self._directory / _DATA_FOLDER / f"{name}.csv"
                with path.open("w", encoding="utf-8", newline="") as file:
                    self._write_split(file, rows)
            else:
                deque(rows, maxlen=0)
            counts[name] = len(inspector.facts[name])
        return counts

    def _number(self, rows: Iterator[GoodRow]) -> Iterator[GoodRow]:
        """Uses the number of a row as its id, if there is one file without ids."""
        column = self._task.id_column
        paths = [file.path for file in self._data_set.source.all_files]
        for row in rows:
            if paths == [row.location.file] and column not in self._data_set.columns:
                row.features[column] = row.location.row
            yield row

    def _write_split(self, file: IO[str], rows: Iterator[GoodRow]) -> None:
        task, classes = self._task, self._task.classes
        columns = [task.id_column, *self._text_columns, *task.label_columns]
        optional = list(self._data_set.settings.slice_columns)
        if task.weight_column is not None:
            optional.append(task.weight_column)
        # QUOTE_MINIMAL quotes a text with the line terminator, but not one with a
        # carriage return.
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow([*columns, *optional])
        read = operator.itemgetter(task.id_column, *task.text_columns)
        for row in rows:
            label = row.features[task.label_column]
            values = [*read(row.features)]
            if task.has_label_columns:
                values += label
            else:
                values.append(task.describe_label(label) if classes else label)
            values += [row.features.get(column, "") for column in optional]
            writer.writerow(values)

    def _validate(self, overrides: Mapping[str, Any]) -> recipe.Config:
        """Writes the recipe, and reads it like a run."""
        path = self._directory / RECIPE_FILE
        head = (
            f"Fine-tunes on {self._data_set.origin}.\n"
            f"  {command('run', '--config', self._target / RECIPE_FILE)}\n"
            "docs/settings.md describes each setting."
        )
        self._settings.set("output", _OUTPUT_FOLDER, "everything that a run writes")
        path.write_text(self._settings.to_yaml(head), encoding="utf-8")
        try:
            return recipe.load_config(path, overrides)
        except UsageError as error:  # show the final name of the folder
            for field in ("got", "advice"):
                text = getattr(error, field) or ""
                shown = text.replace(str(self._directory), str(self._target))
                setattr(error, field, shown or None)
            raise


class _GuessedHalving(Halving):
    """Halves `eval` if both halves are enough for the metrics that all of it is."""

    def allows(self, task: TaskConfig, halves: Sequence[np.ndarray]) -> bool:
        if not all(map(len, halves)):
            return False
        settings, rows = ProjectSettings({}, {}), np.concatenate(halves)
        counts = dict(enumerate(task.label_kind.count(rows)))
        limits = DataGateConfig(max_interval=self.max_interval)
        add_gate(settings, task, counts, rows, limits)
        metrics = tuple(settings.values["evaluator"]["thresholds"])
        return Halving(metrics, self.max_interval).allows(task, halves)


def _input_names(task: TaskConfig, others: Iterable[str]) -> list[str]:
    """Returns names of the text columns that the exported model can have."""
    taken = {task.id_column, task.label_column, task.weight_column, *others}
    names: list[str] = []
    for column in task.text_columns:
        name = input_name(column)
        while name in taken or name in names:
            name += "_text"
        names.append(name)
    return names


def _readme(
    folder: Path, settings: ProjectSettings, task: TaskConfig, policies: Iterable[Path]
) -> str:
    name = settings.values["name"]
    texts = ["--text", "TEXT"]
    if len(task.text_columns) == 2:
        texts = ["--pair", "TEXT", "TEXT"]
    predicted = f"`{task.label_column}` from {' and '.join(task.text_columns)}"
    model = OutputPaths(folder / _OUTPUT_FOLDER, name).pushed
    rules = f"`{policy.FILE}`, here or above, has rules that all recipes obey"
    if files := ", ".join(f"`{file}`" for file in policies):
        rules = f"It obeys {files}"
    return f"""# {name}

Predicts {predicted}. From {Path.cwd()}:

```
{command("run", "--config", folder / RECIPE_FILE)}
{command("predict", "--model", model, *texts)}
{command("serve", "--model", model)}
```
`{RECIPE_FILE}` has the settings with their reasons. {rules}.
"""
