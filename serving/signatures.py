"""What a signature takes and gives, and whether a request fits it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from serving.errors import invalid

Tensors = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """An input or an output.

    Attributes:
      type_name: TensorFlow's name of the type in error messages, as `float`.
      dtype: NumPy's type; `object`, of bytes, for strings.
      shape: Sizes, None for one that is free; None for any shape.
    """

    type_name: str
    dtype: np.dtype
    shape: tuple[int | None, ...] | None

    @property
    def has_free_rows(self) -> bool:
        """Whether axis 0 may have any size."""
        return self.shape is not None and self.shape[:1] == (None,)

    def allows(self, shape: tuple[int, ...]) -> bool:
        """Tells whether a tensor may have a shape."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            wanted in (None, size)
            for wanted, size in zip(self.shape, shape, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature of a SavedModel.

    Attributes:
      name: Its name.
      inputs: What it takes, by name, in alphabetic order.
      outputs: What it gives, by name, in alphabetic order.
    """

    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    @property
    def is_by_row(self) -> bool:
        """Whether every tensor has a row for each row of the others, by its shape.

        An output of unknown shape may; the batcher looks at what it gets.
        """
        return (
            bool(self.inputs)
            and all(spec.has_free_rows for spec in self.inputs.values())
            and all(
                spec.has_free_rows or spec.shape is None
                for spec in self.outputs.values()
            )
        )

    def check(self, inputs: Tensors) -> None:
        """Refuses a request that the signature does not take.

        Args:
          inputs: The request's tensors.

        Raises:
          RequestError: A name, a type or a shape is not the signature's.
        """
        if inputs.keys() != self.inputs.keys():
            raise invalid(self._wrong_names(inputs))
        for name, tensor in inputs.items():
            spec = self.inputs[name]
            if tensor.dtype != spec.dtype:
                raise invalid(
                    f'Expects input "{name}" of signature "{self.name}" to be '
                    f"{spec.type_name} but {_type_name(tensor)} is provided"
                )
            if not spec.allows(tensor.shape):
                raise invalid(
                    f'Expects input "{name}" of signature "{self.name}" to have shape '
                    f"{_show(spec.shape)} but shape {_show(tensor.shape)} is provided"
                )

    def rows(self, inputs: Tensors) -> int | None:
        """Returns the number of rows of checked inputs; None if it is not one number.

        Such a request cannot be joined with others.
        """
        if not self.is_by_row:
            return None
        rows = {len(tensor) for tensor in inputs.values()}
        return rows.pop() if len(rows) == 1 else None

    def _wrong_names(self, inputs: Tensors) -> str:
        given, wanted = (sorted(names) for names in (inputs, self.inputs))
        extra = ",".join(sorted(set(given) - set(wanted)))
        missing = ",".join(sorted(set(wanted) - set(given)))
        if len(given) == len(wanted):
            return (
                f"input tensor alias not found in signature: {extra}. Inputs expected "
                f"to be in the set {{{','.join(wanted)}}}."
            )
        return (
            f"input size does not match signature: {len(given)}!={len(wanted)} "
            f"len({{{','.join(given)}}}) != len({{{','.join(wanted)}}}). "
            f"Sent extra: {{{extra}}}. Missing but required: {{{missing}}}."
        )


def _type_name(tensor: np.ndarray) -> str:
    names = {"object": "string", "float32": "float", "float64": "double"}
    return names.get(tensor.dtype.name, tensor.dtype.name)


def _show(shape: tuple[int | None, ...] | None) -> str:
    sizes = ("?" if size is None else str(size) for size in shape or ())
    return f"[{','.join(sizes)}]"
