"""The records of a run: written by its components, read by all that show it."""

from __future__ import annotations

import json
from typing import Any, ClassVar, TypeVar

import pydantic

from contracts.storage import files, uris

_File = TypeVar("_File", bound="RecordFile")


class Record(pydantic.BaseModel):
    """A fact of a run."""

    # JSON has no NaN or infinity; as strings they are read back.
    model_config = pydantic.ConfigDict(extra="forbid", ser_json_inf_nan="strings")

    def as_json(self) -> dict[str, Any]:
        """Returns the record as JSON."""
        return json.loads(self.model_dump_json())


class RecordFile(Record):
    """A record that is a file.

    Attributes:
      FILE: The name of the file.
      FORMAT: The number of its format.
    """

    # Sentences that follow from the record are written for people, and not read.
    model_config = pydantic.ConfigDict(extra="ignore")

    FILE: ClassVar[str]
    FORMAT: ClassVar[int] = files.FORMAT

    def write(self, directory: str) -> None:
        """Writes the file."""
        path = uris.join(directory, self.FILE)
        files.write_record(path, self.as_json(), self.FORMAT)

    @classmethod
    def read(cls: type[_File], directory: str) -> _File | None:
        """Reads the file; returns None if it does not exist.

        Raises:
          FormatError: This release cannot read the format.
          ValueError: The file is damaged.
        """
        content = files.read_record(uris.join(directory, cls.FILE), cls.FORMAT)
        return None if content is None else cls.model_validate(content)
