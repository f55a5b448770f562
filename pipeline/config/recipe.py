"""The settings of a run: one typed object, from YAML with dotted overrides."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import yaml
from pydantic import (
    Field,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from modules.config.settings import Settings
from modules.config.task import TaskConfig
from modules.config.trainer import TrainerConfig
from pipeline.config import typed_yaml
from pipeline.config.beam import BeamConfig
from pipeline.config.errors import UsageError
from pipeline.config.orchestrators import KubeflowConfig, VertexConfig

_LOCATION_KEYS = (
    "data.source",
    "data.schema_file",
    "encoder.source",
    "beam.job_server_jar",
    "output",
)
_REMOTE_PREFIXES = ("package:", "tfds:")
_RENAMED = {"trainer.restarts": "trainer.seeds"}
_Section = TypeVar("_Section", bound=Settings)


class DataConfig(Settings):
    """Where the examples come from, and what is asked of them.

    Attributes:
      source: A directory of TSV or TFRecord splits, or `tfds:NAME`. None takes a
        GLUE task from TFDS. In a directory's name `{SPAN}` stands for a number: new
        data arrive as a new one.
      span: The number to take; None takes the largest that is there.
      schema_file: A curated schema (`.pbtxt`); None derives one from the task.
    """

    source: str | None = None
    span: int | None = Field(default=None, ge=0)
    schema_file: str | None = None

    @model_validator(mode="after")
    def _check_span(self) -> DataConfig:
        if self.span is not None and "{SPAN}" not in (self.source or ""):
            raise ValueError(
                f"span is {self.span}, but source is {self.source}, without {{SPAN}} "
                "in it; leave data.span out"
            )
        return self


class EncoderConfig(Settings):
    """Where the pre-trained encoder comes from.

    Attributes:
      source: A directory (local or `gs://`), `package:NAME/PATH` for one that an
        installed package carries, or the handle of a SavedModel on TF Hub or Kaggle.
        It holds a Model Garden checkpoint, a Hugging Face folder or a SavedModel.
      sha256: The SHA-256 over the names and contents of all files that are read of the
        source: configuration or graph, vocabulary, tokenizer settings and weights. It
        is checked before any of them is used. The error of a wrong one has the right
        one. None checks nothing.
    """

    source: str
    sha256: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")


class PreprocessingConfig(Settings):
    """How pairs become model inputs.

    Attributes:
      max_seq_length: Longest packed pair in tokens, special tokens included.
    """

    max_seq_length: int = Field(default=128, ge=8)


class EvaluatorConfig(Settings):
    """What a model must reach before it is pushed.

    Attributes:
      split: The split that the gate is measured on.
      thresholds: Lowest value of each metric, in [-1, 1].
      max_regression: How far below the champion each metric may be. On n rows an
        accuracy p has a standard error of sqrt(p (1 - p) / n): less is noise.
      incompatible_champion: What happens if the model that was pushed last has other
        text columns, classes or range. `ignore` applies the thresholds alone and says
        so in the verdict; `refuse` stops the run before training.
    """

    split: str = "eval"
    thresholds: dict[str, float] = Field(default_factory=dict)
    max_regression: dict[str, float] = Field(default_factory=dict)
    incompatible_champion: Literal["ignore", "refuse"] = "ignore"

    @field_validator("thresholds", "max_regression")
    @classmethod
    def _check_range(cls, bounds: dict[str, float]) -> dict[str, float]:
        for metric, bound in bounds.items():
            if not -1 <= bound <= 1:
                raise ValueError(f"{metric} is {bound}; allowed are -1 to 1")
        return bounds


class ServingConfig(Settings):
    """What the exported model must do in a process of its own, before it is pushed.

    Attributes:
      tf_serving_version: Release of TensorFlow Serving whose tensorflow-text must know
        every op of the model: 2.16 to 2.19 have tensorflow-text 2.12, 2.20 has 2.20.
      rows: Rows that are sent, as text and as Examples.
      max_memory_bytes: Most that the process may take.
      timeout_seconds: Most that loading the model and answering may take.
    """

    tf_serving_version: Literal["2.16", "2.17", "2.18", "2.19", "2.20"] = "2.16"
    rows: PositiveInt = 64
    max_memory_bytes: PositiveInt = 8 << 30
    timeout_seconds: PositiveInt = 600

    @field_validator("tf_serving_version", mode="before")
    @classmethod
    def _read_number(cls, version: Any) -> Any:
        # Python callers may give a number; a recipe keeps the text of `2.20`.
        return f"{version:.2f}" if isinstance(version, float) else version


class Config(Settings):
    """Everything a run depends on.

    Attributes:
      name: The pipeline's name, a part of its output paths.
      serving: What the exported model must do before it is pushed.
      beam: Where Beam runs on this machine or from it; clusters have their own.
      kubeflow: Where `--target kubeflow` runs.
      vertex: Where `--target vertex` runs.
      output: Directory of everything the run writes; None is `output/NAME`.
    """

    name: str = Field(pattern="^[a-z][a-z0-9_-]*$")
    task: TaskConfig = TaskConfig()
    data: DataConfig = DataConfig()
    encoder: EncoderConfig
    preprocessing: PreprocessingConfig = PreprocessingConfig()
    trainer: TrainerConfig = TrainerConfig()
    evaluator: EvaluatorConfig = EvaluatorConfig()
    serving: ServingConfig = ServingConfig()
    beam: BeamConfig = BeamConfig()
    kubeflow: KubeflowConfig | None = None
    vertex: VertexConfig | None = None
    output: str | None = None

    @property
    def data_source(self) -> str:
        """Where the examples come from: what is set, or a GLUE task's own place."""
        source = self.data.source or self.task.tfds_source
        assert source is not None  # _check_source
        return source

    @model_validator(mode="after")
    def _check_source(self) -> Config:
        if self.data.source is None and self.task.tfds_source is None:
            raise ValueError(
                "data.source: required, but not set; name a directory or tfds:NAME"
            )
        return self

    @model_validator(mode="after")
    def _check_gate(self) -> Config:
        if not self.evaluator.thresholds:
            raise ValueError(
                "evaluator.thresholds: a gate needs at least one; "
                f"{self.task.metric}: 0.0 lets every model through"
            )
        for key in ("thresholds", "max_regression"):
            for metric in getattr(self.evaluator, key):
                if metric not in self.task.metrics:
                    raise ValueError(
                        f"evaluator.{key} names {metric!r}; this task has "
                        f"{', '.join(self.task.metrics)}"
                    )
        return self

    def with_span(self, span: int) -> Config:
        """Returns the same settings with the span that `data.span` left open."""
        data = self.data.model_copy(update={"span": span})
        return self.model_copy(update={"data": data})

    def to_yaml(self) -> str:
        """Returns the settings as YAML that `load_config` reads back equal."""
        return typed_yaml.dump(self.model_dump())


def load_config(path: str | Path, overrides: dict[str, Any] | None = None) -> Config:
    """Reads a recipe and applies overrides to it.

    Args:
      path: A YAML file. Its relative paths start at the file's own directory.
      overrides: Values by dotted key (`trainer.epochs`). Their relative paths start
        at the working directory.

    Returns:
      The validated settings, every local path absolute.

    Raises:
      UsageError: The file cannot be read, or a key or value is not allowed.
    """
    settings = _read(Path(path), overrides or {})
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        raise UsageError(_describe(error, Path(path), Config)) from error


def load_task(path: str | Path, overrides: dict[str, Any] | None = None) -> TaskConfig:
    """Reads a recipe's task definition alone; see `load_config`."""
    return _load_section(Path(path), overrides or {}, "task", TaskConfig)


def load_beam(path: str | Path, overrides: dict[str, Any] | None = None) -> BeamConfig:
    """Reads a recipe's `beam` section alone; see `load_config`."""
    return _load_section(Path(path), overrides or {}, "beam", BeamConfig)


def _load_section(
    path: Path, overrides: dict[str, Any], name: str, model: type[_Section]
) -> _Section:
    settings = _read(path, overrides).get(name, {})
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        raise UsageError(_describe(error, path, model)) from error


def _read(path: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    try:
        settings = typed_yaml.load(path.read_text(encoding="utf-8"), Config)
    except OSError as error:
        raise UsageError(f"config {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"config {path} is not valid YAML: {error}") from error
    if not isinstance(settings, dict):
        raise UsageError(f"config {path} must hold a mapping of settings")
    _anchor_paths(settings, path.resolve().parent)
    _name_task(settings)
    for key, value in overrides.items():
        _set_dotted(settings, key, value)
        _name_task(settings)
    _anchor_paths(settings, Path.cwd())
    return settings


def parse_override(text: str) -> tuple[str, Any]:
    """Splits `key=value` of the command line; the value is read as YAML.

    Returns:
      The key, and the value: `1.20` is text if the setting is a string.

    Raises:
      UsageError: The text has no `=` or its value is not YAML.
    """
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise UsageError(f"--set {text!r}: write key=value, as trainer.epochs=2")
    kind: Any = Config
    for name in key.strip().split("."):
        kind = typed_yaml.member(kind, name)
    try:
        return key.strip(), typed_yaml.load(value, kind)
    except yaml.YAMLError as error:
        raise UsageError(f"--set {text!r}: the value is not YAML: {error}") from error


def _set_dotted(settings: dict[str, Any], key: str, value: Any) -> None:
    *parents, leaf = key.split(".")
    node = settings
    for parent in parents:
        child = node.setdefault(parent, {})
        if not isinstance(child, dict):
            raise UsageError(f"{key}: {parent} is {child!r}, not a group of settings")
        node = child
    node[leaf] = value


def _name_task(settings: dict[str, Any]) -> None:
    # `task: mrpc` is short for a group that an override can add to.
    if isinstance(settings.get("task"), str):
        settings["task"] = {"name": settings["task"]}


def _anchor_paths(settings: dict[str, Any], base: Path) -> None:
    for key in _LOCATION_KEYS:
        *parents, leaf = key.split(".")
        node: Any = settings
        for parent in parents:
            node = node.get(parent) if isinstance(node, dict) else None
        value = node.get(leaf) if isinstance(node, dict) else None
        if isinstance(value, str) and not _is_remote(value):
            node[leaf] = str(base / value)


def _is_remote(location: str) -> bool:
    return "://" in location or location.startswith(_REMOTE_PREFIXES)


def _describe(error: ValidationError, path: Path, model: Any) -> str:
    lines = [f"config {path} is refused:"]
    for detail in error.errors():
        key = ".".join(str(part) for part in detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        if key in _RENAMED:
            lines.append(f"  {key}: renamed; set {_RENAMED[key]} instead")
        elif detail["type"] == "extra_forbidden":
            message = f"unknown key; allowed here: {_allowed(model, detail['loc'])}"
            lines.append(f"  {key}: {message}")
        elif detail["type"] == "missing":
            lines.append(f"  {key}: required, but not set")
        elif not key:
            lines.append(f"  {message}")
        else:
            lines.append(f"  {key}: {message} (got {detail['input']!r})")
    return "\n".join(lines)


def _allowed(model: Any, location: tuple[Any, ...]) -> str:
    for part in location[:-1]:
        annotation = model.model_fields[part].annotation
        # A group that may be left out: `Group | None`.
        model = next(iter(get_args(annotation)), annotation)
    return ", ".join(model.model_fields)
