"""What the server knows of a loaded version, and what it calls."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from serving.errors import Code, RequestError
from serving.signatures import DEFAULT_SIGNATURE, Signature, Tensors


@dataclasses.dataclass(eq=False, kw_only=True)
class ModelFacts:
    """What the server knows of a model.

    Attributes:
      card: The file of the model card, which may be missing.
      version: The version.
      signatures: The signatures by name.
      signature_metadata: The signatures as the metadata API returns them: a
        `SignatureDefMap` of TensorFlow Serving as JSON.
      text_columns: The text inputs in the task's order, of a model that this pipeline
        exported; None otherwise. A signature sorts its inputs by name.
      description: What `model_files.describe` returns.
      refused_signatures: Names of signatures that this kind of model cannot have, and
        the reasons.
    """

    card: Path
    version: int
    signatures: Mapping[str, Signature]
    signature_metadata: Mapping[str, Any]
    text_columns: list[str] | None
    description: Mapping[str, Any]
    refused_signatures: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def find_signature(self, name: str) -> Signature:
        """Returns a signature.

        Args:
          name: The name in a request; empty for the default.

        Raises:
          RequestError: The model has no such signature.
        """
        name = name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            reason = self.refused_signatures.get(name)
            raise RequestError(
                Code.FAILED_PRECONDITION,
                "signature_name",
                f'"{name}" not found{f": {reason}" if reason else ""}',
                ", ".join(self.signatures),
            )
        return self.signatures[name]


class ServedModel(ModelFacts, abc.ABC):
    """A version in memory, which runs batches."""

    @property
    @abc.abstractmethod
    def is_alive(self) -> bool:
        """Whether it can run."""

    @abc.abstractmethod
    def run(self, signature: str, inputs: Tensors) -> dict[str, np.ndarray]:
        """Runs a signature; several threads may call it at the same time.

        Args:
          signature: A name of `signatures`.
          inputs: The signature's inputs.

        Returns:
          The outputs by name, in alphabetical order; strings as objects, of bytes.

        Raises:
          RequestError: The model refuses the inputs, or it has been closed.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Frees the memory; a batch may still run whose clients have left."""
