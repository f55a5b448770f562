"""Removes a person's rows from everything below an output directory, except models.

Artifacts that derive from Examples with such rows, and directories with their texts,
are deleted, and marked as deleted in ML Metadata, so that the next run creates them
again. Transformed Examples have token ids only; they are found by their lineage.
Reports, logs, pushed versions and samples of requests are rewritten, as no run creates
them again.

Examples go last: they may be the only files that identify the rows, and a killed
command is completed by the same command.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contracts.errors import UsageError
from contracts.settings.checks import CheckSettings
from contracts.settings.data import TFDS_PREFIX, DataConfig
from contracts.storage import files, uris
from contracts.task.definition import TaskConfig
from contracts.task.label_cells import canonical_label
from contracts.versions import served_versions
from contracts.versions.served_versions import (
    CARD_FILE,
    EVALUATION_FILE,
    EXAMPLES_FILE,
)
from ingest import examples as examples_lib
from ingest.examples import tf_examples
from ingest.examples.sources import find_source
from ingest.rows.formats import TFRECORD
from ingest.rows.row_errors import FileError, RowError
from ingest.rows.row_file import RowFile
from pipeline.config import tfx_names
from pipeline.config.paths import OutputPaths
from pipeline.operations import cleaning
from pipeline.operations.cleaning import Obsolete, artifact_directory
from pipeline.operations.person import Person
from pipeline.operations.record import SETTINGS_FILE, read_record
from pipeline.operations.releases import (
    JOURNAL,
    directory_size,
    list_pushed,
    recipe_names,
    storage_failed,
)
from pipeline.operations.rewriting import (
    Rewritten,
    has_text,
    rewrite,
    rewrite_sample,
)
from pipeline.operations.run import Run
from pipeline.operations.runs import RunList
from report.content import PAGE_FILE, Report
from serving import sampling

# In the names of files without texts of rows; a word of a vocabulary may equal a text.
_MODEL_FILES = (
    ".data-",
    ".onnx",
    ".safetensors",
    "saved_model.pb",
    "tokenizer.json",
    "vocab.txt",
)
# What is rewritten below `serving/`; all else is the model.
_OF_VERSIONS = tuple(
    f"/{name}" for name in (CARD_FILE, EVALUATION_FILE, EXAMPLES_FILE, JOURNAL)
)
_MODELS = (tfx_names.MODEL_TYPE, tfx_names.PUSHED_MODEL_TYPE)
# Below the output: the directories that a killed command was to delete.
_UNFINISHED = ".forget.json"
_WHY = "has the rows, derives from them, or may quote them"

_Row = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A model whose run read the rows. It stays.

    Attributes:
      path: Its directory: an artifact or a pushed version.
      is_certain: False if its Examples were deleted before, so that it is unknown
        whether they had the rows.
      settings: Those of its run, to train it again; None if the run has no record.
    """

    path: Path
    is_certain: bool
    settings: Path | None


@dataclasses.dataclass(frozen=True)
class Forgetting:
    """The changes that forget a person.

    Attributes:
      deleted: Directories that a run creates again, in the order of their deletion.
      rewritten: Files without the rows; None deletes the file.
      models: The models that were trained or evaluated on them.
      sources: The user's files that have the rows, with their number: the next run
        reads them again.
      unread: Files that are not searched or not changed, and why.
    """

    deleted: list[Obsolete]
    rewritten: Rewritten
    models: list[TrainedModel]
    sources: dict[str, int]
    unread: list[str]


def plan(
    paths: OutputPaths,
    column: str,
    value: str,
    *,
    data: str | None = None,
    samples: Sequence[Path] = (),
) -> Forgetting:
    """Finds a person's rows, and what holds them or derives from them.

    Args:
      paths: The output directory.
      column: A column of the Examples, or of the files that they were made from.
      value: The person's value in it.
      data: A file or directory with the column, if the recipe's data lack it now.
      samples: Directories with samples of requests of a server.

    Raises:
      UsageError: The value is empty, no row has it, or a file cannot be read.
    """
    if not canonical_label(value):
        pair = f"{column}={value}"
        raise UsageError("column", pair, "NAME=VALUE", name="E-settings-refused")
    with _refusing_errors("read"):
        return _Planner(paths, data).plan(column, value, samples)


def carry_out(paths: OutputPaths, forgetting: Forgetting) -> None:
    """Makes the changes of `plan`. The caller holds the lock of the output directory.

    Raises:
      UsageError: A file cannot be written or deleted.
    """
    deleted = forgetting.deleted
    with _refusing_errors("written"):
        for path, content in forgetting.rewritten.items():
            version = str(path).removesuffix(f"/{EXAMPLES_FILE}")
            if content is None:
                path.unlink(missing_ok=True)
            elif version != str(path):
                served_versions.replace_examples(version, content)
            else:  # a rollback may have moved its directory
                files.write(str(path), content, create_directory=False)
        unfinished = paths.root / _UNFINISHED
        names = [str(entry.path.relative_to(paths.root)) for entry in deleted]
        files.write_record(str(unfinished), {"directories": names})
        for entry in deleted:
            # After an error, the Examples stay, which are the last ones.
            cleaning.delete(paths, [entry], "forget")
        unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def _refusing_errors(done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"cannot be {done}: {error.strerror}"
        raise storage_failed(error.filename, problem) from error


@dataclasses.dataclass
class _Derived:
    """What derives from some artifacts.

    Attributes:
      artifacts: The ids of the artifacts, except models.
      models: The ids of models.
      executions: The ids of the executions that read the artifacts.
      runs: TFX's ids of the runs of the models.
    """

    artifacts: set[int]
    models: set[int] = dataclasses.field(default_factory=set)
    executions: set[int] = dataclasses.field(default_factory=set)
    runs: set[str] = dataclasses.field(default_factory=set)


class _Planner:
    def __init__(self, paths: OutputPaths, data: str | None) -> None:
        self._paths, self._data = paths, data
        self._unread: list[str] = []
        self._runs = RunList(paths, requires_metadata=True)
        self._artifacts: dict[Path, Any] = {}
        # Id, TFX's id of the run, ids of the inputs, and outputs.
        self._executions: list[tuple[int, str, set[int], list[Any]]] = []
        if reader := self._runs.reader:
            cleaning.refuse_copy(paths, reader)
            self._artifacts = {artifact_directory(a): a for a in reader.artifacts()}
            self._executions = [
                (
                    execution.id,
                    reader.run_id_of(execution),
                    {artifact.id for artifact in reader.inputs(execution).values()},
                    [*reader.outputs(execution).values()],
                )
                for execution in reader.all_executions()
            ]
        self._tasks: list[TaskConfig] = []
        self._sources: dict[str, tuple[DataConfig, TaskConfig | None]] = {}
        for run in self._runs:
            self._add_sources(run)
        self._read_by_runs = {*self._sources}
        if data is not None:
            self._sources.setdefault(data, (DataConfig(), None))
        self._prepared = [
            *_directories(paths.artifacts / tfx_names.EXAMPLE_GEN, "*/*"),
            *_directories(paths.examples("any").parent),
        ]

    def _add_sources(self, run: Run) -> None:
        """Adds the files that a run read, and the file that `init` split for it."""
        try:
            config, card = run.settings, run.data
        except UsageError as error:
            self._unread.append(error.sentence())
            return
        self._tasks.append(config.task)
        read = {card.source if card else config.data_source: config.data}
        if card and card.origin:
            read[card.origin.source] = DataConfig()
        for _, section in config.checks.sections():
            if isinstance(section, CheckSettings):
                paths = (getattr(section, name) for name in section.rows_settings())
                read |= dict.fromkeys(filter(None, paths), DataConfig())
        for location, settings in read.items():
            self._sources.setdefault(location, (settings, config.task))

    def plan(self, column: str, value: str, samples: Sequence[Path]) -> Forgetting:
        """See the function `plan`."""
        person = Person(column, value, [task.text_columns for task in self._tasks])
        is_found = False
        for location in [*self._sources]:
            try:
                is_found |= person.learn(row for _, row in self._read(location))
            except UsageError as error:
                if location == self._data:
                    raise
                del self._sources[location]
                self._unread.append(error.sentence())
        for directory in self._prepared:
            is_found |= person.learn(_read_examples(directory))
        leftovers = {*self._find_leftovers()}
        if not is_found:
            unknown = UsageError(
                "column",
                f"no row has {value!r} in {column!r}",
                ", ".join(sorted(person.columns)) or "none, as no rows can be read",
                "if the data have changed, give a copy with the rows, `data=FILE`",
                name="E-column-missing",
            )
            if not leftovers:
                raise unknown
            self._unread.append(unknown.sentence())
        sources: Counter[str] = Counter()
        for location in self._sources:
            found = Counter(f for f, row in self._read(location) if person.claims(row))
            if location in self._read_by_runs:
                sources += found
        examples = self._claim_examples(person)
        owned = examples.keys()
        derived = self._derive(owned)
        ids: dict[str, set[int]] = {}
        for directory, own in examples.items():
            for run in self._derive({directory}).runs:
                ids.setdefault(run, set()).update(own)
        generated = self._paths.artifacts / tfx_names.EXAMPLE_GEN
        paths = {p for p in self._artifacts if p.is_relative_to(generated)}
        lost = self._derive({path for path in paths if not path.is_dir()})
        first = leftovers | {*self._find_derived(derived)} - paths
        others, rewritten = self._search(person, first | owned, ids)
        first = (first | others) - owned
        for directory in samples:
            if not directory.is_dir():
                problem = f"{directory} is not a directory"
                raise UsageError("samples", problem, name="E-data-not-found")
            for path in directory.glob(sampling.FILES):
                rewritten |= rewrite_sample(path, person)
        return Forgetting(
            deleted=[self._describe(path) for path in (*sorted(first), *sorted(owned))],
            rewritten=rewritten,
            models=[*self._find_models(derived, lost)],
            sources=dict(sources),
            unread=self._unread,
        )

    def _read(self, location: str) -> Iterator[tuple[str, _Row]]:
        """Yields the readable rows of a user's files, each with its file."""
        settings, task = self._sources[location]
        if location.startswith(TFDS_PREFIX) or not uris.is_local(location):
            raise UsageError(
                location, "not read: not of this machine", name="E-local-path-required"
            )
        source = find_source(location, settings)
        for split in source.files:
            for place, row in source.read(split, task):
                if isinstance(row, FileError):
                    raise UsageError(str(place), str(row), name="E-file-damaged")
                if isinstance(row, dict):
                    yield place.file, row
        if not source.files:
            records = examples_lib.find_examples(location, settings)
            for split in records.patterns:
                for path in examples_lib.list_examples(records, split):
                    yield from ((path, row) for row in _read_records(path))

    def _claim_examples(self, person: Person) -> dict[Path, set[int]]:
        """Returns the directories of Examples that have rows, with the rows' ids."""
        id_columns = {task.id_column for task in self._tasks}
        owned: dict[Path, set[int]] = {}
        for directory in self._prepared:
            for row in filter(person.claims, _read_examples(directory)):
                ids = {row[name] for name in id_columns & row.keys()}
                owned.setdefault(directory, set()).update(ids)
        return owned

    def _find_leftovers(self) -> Iterator[Path]:
        """Yields directories that a killed `carry_out` did not delete."""
        record = files.read_record(str(self._paths.root / _UNFINISHED)) or {}
        for name in record.get("directories", ()):
            if (path := self._paths.root / name).is_dir():
                yield path

    def _derive(self, directories: Collection[Path]) -> _Derived:
        """Follows artifacts through the executions that read them."""
        artifacts = self._artifacts.items()
        derived = _Derived({a.id for path, a in artifacts if path in directories})
        for execution, run, inputs, outputs in self._executions:
            models = {a.id for a in outputs if a.type in _MODELS}
            if inputs & derived.artifacts:
                derived.artifacts |= {a.id for a in outputs} - models
                derived.executions.add(execution)
            if models and inputs & (derived.artifacts | derived.models):
                derived.models |= models
                derived.runs.add(run)
        return derived

    def _find_derived(self, derived: _Derived) -> Iterator[Path]:
        """Yields directories that executions wrote, killed ones included."""
        for path, artifact in self._artifacts.items():
            if artifact.id in derived.artifacts and path.is_dir():
                yield path
        for execution in derived.executions:
            # TFX names the directories after the execution.
            written = _directories(self._paths.artifacts, f"*/*/{execution}")
            yield from (path for path in written if path not in self._artifacts)
        if derived.executions:
            yield from _directories(self._paths.artifacts, "*/.system")
            yield from _directories(self._paths.artifacts, tfx_names.CHECK_RESULTS)

    def _search(
        self,
        person: Person,
        known: Collection[Path],
        ids: Mapping[str, Collection[int]],
    ) -> tuple[set[Path], Rewritten]:
        """Returns other directories with a text, and the files that are rewritten.

        Args:
          person: The person.
          known: Directories that are not searched.
          ids: The ids of the rows by TFX's id of the run that read them.
        """
        root, deleted = self._paths.root, {"artifacts": 3, "labelled_rows": 1}
        run_of = functools.cache(read_record)
        directories: set[Path] = set()
        rewritten: Rewritten = {}
        for path in _walk(root, known):
            (top, *parts) = path.relative_to(root).parts
            # A page is rendered from the report next to it.
            has_report = path.name == PAGE_FILE and path.with_name(Report.FILE).exists()
            if has_report or any(part in path.name for part in _MODEL_FILES):
                continue
            is_of_version = top == "serving" and str(path).endswith(_OF_VERSIONS)
            is_of_run = top == "runs" and path.name != SETTINGS_FILE
            if is_of_run or is_of_version:
                of_run = ids.get(run_of(path.parent).tfx_run_id or "")
                rewritten |= rewrite(path, person, of_run, self._unread)
            if path in rewritten or not has_text(path, person):
                continue
            directory = root.joinpath(top, *parts[: deleted.get(top, len(parts))])
            artifact = self._artifacts.get(directory)
            if directory == path or (artifact and artifact.type in _MODELS):
                self._unread.append(f"{path} has a text of the rows, and stays")
            else:
                directories.add(directory)
        return directories, rewritten

    def _describe(self, path: Path) -> Obsolete:
        artifact = self._artifacts.get(path)
        kind = path.relative_to(self._paths.root).parts[0].removesuffix("s")
        size = directory_size(path)
        return Obsolete(kind, path, _WHY, size, artifact.id if artifact else None)

    def _find_models(self, derived: _Derived, lost: _Derived) -> Iterator[TrainedModel]:
        models = derived.models | lost.models
        found = [
            (path, artifact.id in derived.models, run)
            for path, artifact in self._artifacts.items()
            for _, run, _, outputs in self._executions
            if path.is_relative_to(self._paths.artifacts / tfx_names.TRAINER)
            and artifact.id in models & {output.id for output in outputs}
            and path.is_dir()
        ]
        for name in recipe_names(self._paths):
            for version in list_pushed(OutputPaths(self._paths.root, name)):
                run = version.tfx_run_id or ""
                if run in derived.runs | lost.runs:
                    found.append((version.directory, run in derived.runs, run))
        for path, is_certain, run in {entry[0]: entry for entry in found}.values():
            record = self._runs.of_tfx_run(run)
            settings = None if record is None else record.directory / SETTINGS_FILE
            yield TrainedModel(path, is_certain, settings)


def _directories(parent: Path, pattern: str = "*") -> list[Path]:
    return sorted(path for path in parent.glob(pattern) if path.is_dir())


def _walk(root: Path, skipped: Collection[Path] = ()) -> Iterator[Path]:
    """Yields the regular files below a directory."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if Path(folder, name) not in skipped]
        paths = (Path(folder, name) for name in sorted(names))
        yield from (p for p in paths if p.is_file() and not p.is_symlink())


def _read_examples(directory: Path) -> Iterator[_Row]:
    for path in _walk(directory):
        if "tfrecord" in path.name:
            yield from _read_records(str(path))


def _read_records(path: str) -> Iterator[_Row]:
    for _, record in RowFile(path, TFRECORD).read():
        if isinstance(record, bytes):
            with contextlib.suppress(RowError):
                yield tf_examples.to_row(record)
