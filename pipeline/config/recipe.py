"""The recipe: one typed object with every setting, read from YAML with overrides."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import Field, PrivateAttr, ValidationError, model_validator

from components.model_checks import registry
from contracts import metrics
from contracts.errors import SettingError, UsageError
from contracts.packing import Packing
from contracts.row_values import find_surrogate
from contracts.section import Settings
from contracts.settings import cluster
from contracts.settings.checks import CheckSettings
from contracts.settings.data import TEST, TFDS_PREFIX, DataConfig, check_slice_columns
from contracts.settings.data_gate import DataGateConfig
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from contracts.settings.serving import ServingConfig
from contracts.settings.trainer import TrainerConfig
from contracts.settings.tuner import TunerConfig
from contracts.storage import uris
from contracts.task.definition import EVAL_SPLIT, INPUT_NAME, TaskConfig, input_name
from ingest.examples.halving import Halving
from pipeline.config import policy, problems, secrets, typed_yaml
from pipeline.config.beam import BeamConfig
from pipeline.config.orchestrators import KubeflowConfig, VertexConfig

if TYPE_CHECKING:
    from components.model_checks.registry import ChecksSection as ChecksConfig
else:
    ChecksConfig = registry.make_config()  # with a field for each check

PACKAGE_PREFIX = "package:"  # of sources that are not paths
_PATH_KEYS = (
    *registry.find_rows_settings(),
    "data.source",
    "data.schema_file",
    "encoder.source",
    "beam.job_server_jar",
    "output",
)
NAME_PATTERN = "^[a-z][a-z0-9_-]*$"  # of a recipe, and of the directory it pushes to
_SEARCHED = (
    f"{EVAL_SPLIT}, whose rows also choose the settings that tuner searches: on them "
    "any model would seem too good"
)
_OTHER_SPLIT = "choose other rows, such as `evaluator.split=test`"
_Overrides = Mapping[str, Any] | None
_Section = TypeVar("_Section", bound=Settings)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where settings come from; equal settings may come from several recipes.

    Attributes:
      file: The recipe; None if none was read.
      overrides: Dotted keys whose values are not from the recipe.
    """

    file: Path | None = dataclasses.field(default=None, compare=False)
    overrides: tuple[str, ...] = dataclasses.field(default=(), compare=False)


class EncoderConfig(Settings):
    """Where the pre-trained encoder comes from.

    Attributes:
      source: A directory (local or `gs://`), `package:NAME/PATH` for a directory in an
        installed package, or the handle of a SavedModel on TF Hub or Kaggle. It holds
        a Model Garden checkpoint, a Hugging Face folder or a SavedModel.
      sha256: Expected SHA-256 over the names and contents of all files that are read
        from the source: configuration or graph, vocabulary, tokenizer settings and
        weights. It is checked before any file is used; the error message has the
        actual hash. None checks nothing.
    """

    source: str
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class Config(Settings):
    """Everything a run depends on.

    Attributes:
      name: Name of the pipeline; part of its output paths.
      serving: What the exported model must pass before it is pushed.
      beam: Where Beam runs if this machine starts it; `kubeflow` and `vertex` have
        their own.
      kubeflow: Settings of `--orchestrator kubeflow`.
      vertex: Settings of `--orchestrator vertex`.
      output: Directory of everything the run writes; None is `output/NAME`.
      private: Whether only the user of the run may read what it writes on this machine.
        Whoever may read `output/serving` can read the pushed versions. The permissions
        of a bucket are not changed.
      redact: `MODULE:FUNCTION` of yours that changes or hides the texts of rows that
        reports and pushed examples show: a file beside the recipe, or an installed
        module. It gets the texts of a row by column, and returns the row to show, or
        None. None shows the texts as they are.
    """

    name: str = Field(pattern=NAME_PATTERN)
    task: TaskConfig = TaskConfig()
    data: DataConfig = DataConfig()
    data_gate: DataGateConfig = DataGateConfig()
    encoder: EncoderConfig
    preprocessing: Packing = Packing()
    trainer: TrainerConfig = TrainerConfig()
    tuner: TunerConfig | None = None
    evaluator: EvaluatorConfig = EvaluatorConfig()
    serving: ServingConfig = ServingConfig()
    checks: ChecksConfig = ChecksConfig()
    beam: BeamConfig = BeamConfig()
    kubeflow: KubeflowConfig | None = None
    vertex: VertexConfig | None = None
    output: str | None = None
    private: bool = False
    redact: str | None = None
    _origin: Origin = PrivateAttr(Origin())

    @property
    def origin(self) -> Origin:
        """Where `load_config` read the settings."""
        return self._origin

    @property
    def directory(self) -> str | None:
        """The directory of the recipe; None if it has no file."""
        return str(self._origin.file.parent) if self._origin.file else None

    @property
    def data_source(self) -> str:
        """Where the examples come from: `data.source`, or TFDS for a GLUE task."""
        source = self.data.source or self.task.tfds_source
        assert source is not None  # _check_source
        return source

    @property
    def sections(self) -> Sections:
        """The sections that components read."""
        return Sections(**{name: getattr(self, name) for name in Sections.model_fields})

    @property
    def halving(self) -> Halving | None:
        """When `eval` of data without `test` is halved; None: never."""
        if self.evaluator.split not in (None, TEST):
            return None
        return Halving(tuple(self.evaluator.thresholds), self.data_gate.max_interval)

    @model_validator(mode="after")
    def _check_source(self) -> Config:
        if self.data.source is None and self.task.tfds_source is None:
            raise SettingError(
                "data.source", "missing", advice="name a directory or tfds:NAME"
            )
        return self

    @model_validator(mode="after")
    def _check_input_names(self) -> Config:
        for column in self.task.text_columns:
            if not INPUT_NAME.fullmatch(column):
                raise SettingError(
                    "task.text_columns",
                    f"names {column!r}",
                    "ASCII letters, digits, '_', '.' and '-', as in the names of a "
                    "SavedModel's inputs",
                    f"rename the column, for example to {input_name(column)}",
                )
        return self

    @model_validator(mode="after")
    def _check_long_text(self) -> Config:
        if self.preprocessing.long_text is None or self.task.has_single_text:
            return self
        if self.task.is_tokenized:
            raise SettingError(
                "preprocessing.long_text",
                "reads texts in windows, but task.input is tokenized: another tool has "
                "packed the rows",
                advice="give texts, or leave long_text out",
            )
        raise SettingError(
            "preprocessing.long_text",
            "reads one text in windows, but task.text_columns is "
            f"{self.task.text_columns}: a window cannot have all of both",
            advice="name one column, or leave long_text out and choose with "
            "preprocessing.keep which part of both is kept",
        )

    @model_validator(mode="after")
    def _check_bounds(self) -> Config:
        if not self.evaluator.thresholds:
            raise SettingError(
                "evaluator.thresholds",
                "a gate needs at least one",
                advice=f"add one; {self.task.metric}: 0.0 lets every model pass",
            )
        table = self.task.metric_table
        groups = {
            key: getattr(self.evaluator, key)
            for key in ("thresholds", "max_regression")
        }
        for key, bounds in groups.items():
            for name, bound in bounds.items():
                if name not in self.task.metrics:
                    raise SettingError(
                        f"evaluator.{key}",
                        f"names {name!r}",
                        metrics.shorten(self.task.metrics),
                    )
                low, high = table[name].low, table[name].high
                if key == "max_regression":
                    low, high = low - high, high - low
                if not low <= bound <= high:
                    raise SettingError(
                        f"evaluator.{key}",
                        f"{name} is {bound}",
                        f"{low:g} to {high:g}",
                    )
        return self

    @model_validator(mode="after")
    def _check_slices(self) -> Config:
        check_slice_columns(self.data.slice_columns, self.task)
        return self

    @model_validator(mode="after")
    def _check_checks(self) -> Config:
        """Refuses settings of checks, except those of a user's own: they are code."""
        for name, section in self.checks.sections():
            if isinstance(section, CheckSettings):
                check, columns = registry.find_checks()[name], self.data.slice_columns
                registry.validate(name, check, section, self.task, columns)
        return self

    @model_validator(mode="after")
    def _check_class_weights(self) -> Config:
        weights, classes = self.trainer.class_weights, self.task.label_kind.names
        if weights is None:
            return self
        if not classes:
            raise SettingError(
                "trainer.class_weights",
                f"{weights}, but the task is a regression",
                advice="leave it out, or weigh rows with task.weight_column",
            )
        unknown = [name for name in weights if name not in classes]
        if isinstance(weights, dict) and unknown:
            raise SettingError(
                "trainer.class_weights",
                f"names {', '.join(map(repr, unknown))}",
                ", ".join(classes),
            )
        return self

    @model_validator(mode="after")
    def _check_search(self) -> Config:
        if self.tuner is None:
            return self
        self.tuner.parse_space(self.trainer)
        if self.evaluator.split == EVAL_SPLIT:
            raise SettingError("evaluator.split", _SEARCHED, advice=_OTHER_SPLIT)
        trainer = self.trainer
        if (
            "batch_size" in self.tuner.space
            and trainer.evaluation_steps is not None
            and trainer.evaluation_batch_size is None
        ):
            raise SettingError(
                "tuner.space",
                "has batch_size, by which trainer.evaluation_steps counts the "
                "evaluated rows",
                advice="set trainer.evaluation_batch_size",
            )
        if trainer.strategy in (cluster.PARAMETER_SERVER, cluster.MULTI_WORKER):
            raise SettingError(
                "trainer.strategy",
                f"{trainer.strategy}, but tuner works in one process",
                advice="choose another strategy",
            )
        return self

    def with_span(self, span: int) -> Config:
        """Returns the same settings with `data.span` set."""
        data = self.data.model_copy(update={"span": span})
        return self.model_copy(update={"data": data})

    def with_split(self, splits: Iterable[str]) -> Config:
        """Returns the same settings with `evaluator.split` set.

        Raises:
          UsageError: The split is not one of them, or a search has chosen its settings
            on the same rows.
        """
        names = sorted(splits)
        split = self.evaluator.split or (TEST if TEST in names else EVAL_SPLIT)
        if split not in names:
            raise SettingError(
                "evaluator.split",
                repr(split),
                f"the splits of the data, {', '.join(names)}",
            )
        if self.tuner is not None and split == EVAL_SPLIT:
            raise SettingError("evaluator.split", _SEARCHED, advice=_OTHER_SPLIT)
        evaluator = self.evaluator.model_copy(update={"split": split})
        return self.model_copy(update={"evaluator": evaluator})

    def to_yaml(self) -> str:
        """Returns the settings as YAML that `load_config` reads back equal."""
        return typed_yaml.dump(self.model_dump())


def load_config(
    path: str | Path, overrides: _Overrides = None, *, is_past: bool = False
) -> Config:
    """Reads a recipe and applies overrides to it.

    Args:
      path: A YAML file. Its relative paths start at the file's own directory.
      overrides: Values by dotted key (`trainer.epochs`). Their relative paths start
        at the working directory.
      is_past: Whether only past runs and their versions are looked at, which no policy
        of today hinders.

    Returns:
      The validated settings, every local path absolute.

    Raises:
      UsageError: The file cannot be read, a key or value is not allowed, or a policy
        (`pipeline.config.policy`) forbids a column.
    """
    config = _load(Config, Path(path), overrides)
    if not is_past:
        policy.refuse_columns(config.task, Path(path))
    config._origin = Origin(Path(os.path.abspath(path)), tuple(overrides or ()))
    return config


def load_task(path: str | Path, overrides: _Overrides = None) -> TaskConfig:
    """Reads only the task definition of a recipe; see `load_config`."""
    task = _load(TaskConfig, Path(path), overrides, "task")
    policy.refuse_columns(task, Path(path))
    return task


def load_data(path: str | Path, overrides: _Overrides = None) -> DataConfig:
    """Reads only the `data` section of a recipe; see `load_config`."""
    return _load(DataConfig, Path(path), overrides, "data")


def load_beam(path: str | Path, overrides: _Overrides = None) -> BeamConfig:
    """Reads only the `beam` section of a recipe; see `load_config`."""
    return _load(BeamConfig, Path(path), overrides, "beam")


def parse_override(text: str) -> tuple[str, Any]:
    """Splits `key=value` of the command line, and reads the value.

    Returns:
      The key, and the value. `1.20` and `#` are text if the setting is a string; values
      of other settings are YAML.

    Raises:
      UsageError: The text has no `=` or its value is not YAML.
    """
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise SettingError(
            "overrides", repr(text), "KEY=VALUE, such as trainer.epochs=2"
        )
    return key.strip(), parse_value(key.strip(), value, "overrides")


def parse_value(key: str, text: str, argument: str) -> Any:
    """Returns the value of a setting that was written on the command line.

    Raises:
      UsageError: The text is not YAML.
    """
    kind = functools.reduce(typed_yaml.member, registry.split_key(key), Config)
    try:
        return typed_yaml.load_value(text, kind)
    except yaml.YAMLError as error:
        raise SettingError(
            argument, f"{text!r} is not YAML: {error}", advice="quote the value"
        ) from error


def _read(path: Path, overrides: _Overrides) -> dict[str, Any]:
    settings = typed_yaml.read(path, Config)
    _anchor_paths(settings, Path(os.path.abspath(path)).parent)
    _expand_task(settings)
    keys = map(registry.split_key, overrides or ())
    unknown = (problems.find_unknown(Config, key) for key in keys)
    if refused := list(filter(None, unknown)):
        raise problems.combine(refused)
    for key, value in (overrides or {}).items():
        set_dotted(settings, key, value)
        _expand_task(settings)
    _fix_overridden(settings, overrides or {})
    _anchor_paths(settings, Path.cwd())
    return settings


def set_dotted(settings: dict[str, Any], key: str, value: Any) -> None:
    """Sets a value by its dotted key.

    Raises:
      UsageError: A part of the key is a value, not a group of settings.
    """
    *parents, leaf = registry.split_key(key)
    node = settings
    for parent in parents:
        child = node.get(parent)
        if child is None:  # `checks: {my_checks:MyCheck: }` has no settings
            child = node[parent] = {}
        if not isinstance(child, dict):
            raise SettingError(
                key,
                f"{parent} is {child!r}, not a group of settings",
                advice="docs/settings.md has the keys",
            )
        node = child
    node[leaf] = value


def _expand_task(settings: dict[str, Any]) -> None:
    # `task: mrpc` is short for a section that overrides can add to.
    if isinstance(settings.get("task"), str):
        settings["task"] = {"name": settings["task"]}


def _fix_overridden(settings: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Leaves settings of the Trainer that are overridden out of the search."""
    tuner = settings.get("tuner")
    space = tuner.get("space") if isinstance(tuner, dict) else None
    if not isinstance(tuner, dict) or not isinstance(space, dict):
        return
    searched = {
        name: values
        for name, values in space.items()
        if f"trainer.{name}" not in overrides
    }
    if space and not searched:
        settings["tuner"] = None
    else:
        tuner["space"] = searched


def _anchor_paths(settings: dict[str, Any], base: Path) -> None:
    for key in _PATH_KEYS:
        *parents, leaf = key.split(".")
        node: Any = settings
        for parent in parents:
            node = node.get(parent) if isinstance(node, dict) else None
        value = node.get(leaf) if isinstance(node, dict) else None
        if isinstance(value, str):
            node[leaf] = anchor(value, base)


def anchor(source: str, base: str | Path) -> str:
    """Returns a source with the absolute path of a local one, without `..`.

    A path is resolved if `..` follows a symbolic link in it.
    """
    if not uris.is_local(source) or source.startswith((PACKAGE_PREFIX, TFDS_PREFIX)):
        return source
    path = Path(base, source)
    short, resolved = os.path.normpath(path), os.path.realpath(path)
    return short if os.path.realpath(short) == resolved else resolved


def make_task(settings: Mapping[str, Any]) -> TaskConfig:
    """Returns a task.

    Raises:
      UsageError: A setting is not allowed.
    """
    try:
        return TaskConfig.model_validate(settings)
    except ValidationError as error:
        raise problems.combine(problems.find(error, TaskConfig, "task")) from error


def _load(
    model: type[_Section], path: Path, overrides: _Overrides, section: str = ""
) -> _Section:
    """Reads and validates a recipe, or one of its sections."""
    settings = _section(_read(path, overrides), section)
    texts = list(_find_texts(settings, section))
    for key, text in texts:  # first: other errors show the refused value
        secrets.refuse(key, text)
    for key, text in texts:
        if key in _PATH_KEYS:
            _check_location(key, text)
        # The name of a file may have bytes that are not UTF-8.
        if key not in _PATH_KEYS and (surrogate := find_surrogate(text)):
            got, _, advice = surrogate.partition("; ")
            raise SettingError(key, got, advice=advice)
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        refused = problems.find(error, model, section)
    of_file: set[str] = set()
    try:
        model.model_validate(_section(_read(path, None), section))
    except ValidationError as error:
        of_file = set(map(str, problems.find(error, model, section)))
    overridden = tuple(f"{key}." for key in overrides or ())
    for problem in refused:
        is_overridden = f"{problem.setting}.".startswith(overridden)
        if str(problem) in of_file and not is_overridden:
            problem.got = f"{problem.got} (in {path})"
    raise problems.combine(refused)


def _check_location(key: str, text: str) -> None:
    if key == "output" and not uris.is_local(text):
        raise UsageError(
            key,
            text,
            "a directory on this machine",
            name="E-local-path-required",
        )
    if key != "encoder.source" or not text.startswith(("http://", "https://")):
        uris.refuse_scheme(key, text)


def _section(settings: dict[str, Any], section: str) -> Any:
    return settings.get(section, {}) if section else settings


def _find_texts(settings: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yields each text of settings, which may be nested, after its dotted key."""
    if isinstance(settings, str):
        yield key, settings
    elif isinstance(settings, Mapping):
        for name, value in settings.items():
            yield key, str(name)
            yield from _find_texts(value, f"{key}.{name}" if key else str(name))
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from _find_texts(value, key)
