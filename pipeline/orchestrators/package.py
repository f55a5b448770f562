"""What a compiled pipeline asks for, read before anything is sent anywhere."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline.config.errors import UsageError

# What a parameter of each type may be; the first three also under the names that
# pipeline spec 2.0.0 gives them.
_STRING = ("a string", (str,))
_INTEGER = ("an integer", (int,))
_NUMBER = ("a number", (int, float))
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "STRING": _STRING,
    "NUMBER_INTEGER": _INTEGER,
    "INT": _INTEGER,
    "NUMBER_DOUBLE": _NUMBER,
    "DOUBLE": _NUMBER,
    "BOOLEAN": ("true or false", (bool,)),
    "LIST": ("a list", (list,)),
    "STRUCT": ("a mapping", (dict,)),
}


@dataclasses.dataclass(frozen=True)
class CompiledPipeline:
    """A pipeline as a compiler wrote it.

    Attributes:
      path: The file.
      documents: What it holds: a pipeline spec, or a Vertex AI job around one, and
        maybe a second document with the settings of a platform.
    """

    path: Path
    documents: Sequence[dict[str, Any]]

    @property
    def spec(self) -> dict[str, Any]:
        """The pipeline spec."""
        return self.documents[0].get("pipelineSpec", self.documents[0])

    @property
    def job_settings(self) -> dict[str, Any]:
        """What the Vertex AI job around the spec sets for a run."""
        return self.documents[0].get("runtimeConfig", {})

    @property
    def parameters(self) -> dict[str, dict[str, Any]]:
        """The definitions of the runtime parameters, by name."""
        return self.spec["root"].get("inputDefinitions", {}).get("parameters", {})

    def check_parameters(self, values: Mapping[str, Any]) -> None:
        """Refuses values that a run could not start with.

        Args:
          values: Runtime parameters by name.

        Raises:
          UsageError: The pipeline has no such parameter, wants another type, or has a
            parameter without a default that is not given.
        """
        allowed = ", ".join(sorted(self.parameters)) or "no parameters at all"
        unknown = sorted(set(values) - set(self.parameters))
        if unknown:
            raise UsageError(
                f"{self.path} has no parameter {', '.join(unknown)}; it has {allowed}"
            )
        for name, value in values.items():
            self._check_type(name, value)
        missing = sorted(
            name
            for name, definition in self.parameters.items()
            if name not in values and not self._has_default(name, definition)
        )
        if missing:
            raise UsageError(
                f"{self.path} has no default for {', '.join(missing)}: give a value"
            )

    def _check_type(self, name: str, value: Any) -> None:
        definition = self.parameters[name]
        wanted, types = _TYPES[definition.get("parameterType") or definition["type"]]
        # To Python, True is an integer.
        if not isinstance(value, types) or (isinstance(value, bool) != (bool in types)):
            raise UsageError(
                f"parameter {name} is {value!r} ({type(value).__name__}); "
                f"{self.path} wants {wanted}"
            )

    def _has_default(self, name: str, definition: dict[str, Any]) -> bool:
        given = self.job_settings.get("parameterValues") or self.job_settings.get(
            "parameters", {}
        )
        return (
            "defaultValue" in definition
            or definition.get("isOptional", False)
            or name in given
        )

    @contextlib.contextmanager
    def with_caching(self, enabled: bool | None) -> Iterator[Path]:
        """Gives a file of the pipeline in which all tasks have one caching option.

        Args:
          enabled: Whether results of earlier runs are used again. None leaves what was
            compiled, and gives the file itself.
        """
        if enabled is None:
            yield self.path
            return
        documents = copy.deepcopy(list(self.documents))
        spec = CompiledPipeline(self.path, documents).spec
        for component in (spec["root"], *spec["components"].values()):
            for task in component.get("dag", {}).get("tasks", {}).values():
                task.setdefault("cachingOptions", {})["enableCache"] = enabled
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / self.path.name
            file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
            yield file


def read_package(
    path: Path,
    *,
    suffixes: Sequence[str] = (".yaml", ".yml", ".json"),
    schema_versions: Sequence[str] = ("2.1.0",),
) -> CompiledPipeline:
    """Reads a compiled pipeline.

    Args:
      path: The file: a pipeline spec (YAML), or a Vertex AI job (JSON).
      suffixes: What its name may end with.
      schema_versions: The versions of the pipeline spec that the target runs.

    Raises:
      UsageError: There is no such file, or it is no such pipeline.
    """
    if not path.is_file():
        raise UsageError(f"{path} is not a file; compile the pipeline first")
    if path.suffix not in suffixes:
        raise UsageError(
            f"{path} does not end with {' or '.join(suffixes)}, the form that is "
            "accepted here; compile the pipeline for this target"
        )
    try:
        # YAML is a superset of JSON.
        documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no YAML and no JSON: {error}") from error
    package = CompiledPipeline(path, documents)
    if not _is_pipeline(documents):
        raise UsageError(f"{path} is no compiled pipeline (no pipelineInfo and root)")
    version = package.spec.get("schemaVersion")
    if version not in schema_versions:
        raise UsageError(
            f"{path} has schemaVersion {version}; {' or '.join(schema_versions)} is "
            "accepted here: compile the pipeline for this target"
        )
    return package


def _is_pipeline(documents: list[Any]) -> bool:
    if not documents or not all(isinstance(each, dict) for each in documents):
        return False
    spec = documents[0].get("pipelineSpec", documents[0])
    return isinstance(spec, dict) and {"pipelineInfo", "root"} <= spec.keys()
