"""The executor of ImportExampleGen, which misses no file."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import any_pb2, wrappers_pb2
from tfx import types
from tfx import v1 as tfx
from tfx.components.example_gen.import_example_gen import executor
from tfx.proto import example_gen_pb2
from tfx.types import standard_component_specs
from tfx.utils import proto_utils

from contracts import wording
from contracts.errors import UsageError
from contracts.storage import files, uris

_CONFIG = standard_component_specs.CUSTOM_CONFIG_KEY
_FILES = "files"


class Executor(executor.Executor):
    """Refuses files that are missing; Beam would read the others."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Reads the files.

        Args:
          input_dict: Empty.
          output_dict: `examples`.
          exec_properties: `input_base`, `input_config`, and `custom_config` of
            `describe_files`.

        Raises:
          UsageError: Files are missing, before or after the others were read.
        """
        refuse_missing_files(exec_properties)
        try:
            super().Do(input_dict, output_dict, exec_properties)
        except Exception:
            refuse_missing_files(exec_properties)
            raise
        refuse_missing_files(exec_properties)


def describe_files(fingerprint: str, counts: dict[str, int]) -> tfx.proto.CustomConfig:
    """Returns what the executor and its cache key know of the files of a run.

    Args:
      fingerprint: Hash of the files. ExampleGen's driver adds only their sizes and
        times to the cache key.
      counts: Number of files by split.
    """
    text = json.dumps({"fingerprint": fingerprint, _FILES: counts})
    content = any_pb2.Any()
    content.Pack(wrappers_pb2.StringValue(value=text))
    return tfx.proto.CustomConfig(custom_config=content)


def refuse_missing_files(exec_properties: dict[str, Any]) -> None:
    """Refuses splits without files, or with fewer than the run has found before.

    Raises:
      UsageError: Files are missing.
    """
    base = exec_properties[standard_component_specs.INPUT_BASE_KEY]
    splits = proto_utils.json_to_proto(
        exec_properties[standard_component_specs.INPUT_CONFIG_KEY],
        example_gen_pb2.Input(),
    ).splits
    counts = _read_counts(exec_properties.get(_CONFIG))
    for split in splits:
        pattern = uris.join(base, split.pattern)
        try:
            count = len(files.list_records([pattern]))
        except files.MissingRecordsError as error:
            raise _missing(str(error.setting), str(error.got)) from error
        if count < counts.get(split.name, 0):
            expected = wording.count(counts[split.name], "file")
            raise _missing(pattern, f"{expected} when the run started, {count} now")


def _read_counts(config: str | None) -> dict[str, int]:
    if not config:
        return {}
    content = wrappers_pb2.StringValue()
    custom = proto_utils.json_to_proto(config, tfx.proto.CustomConfig())
    custom.custom_config.Unpack(content)
    counts: dict[str, int] = json.loads(content.value)[_FILES]
    return counts


def _missing(path: str, reason: str) -> UsageError:
    return UsageError(
        path,
        reason,
        advice="restore the data, and run the same command again",
        name="E-data-changed",
    )
