"""What a signature takes and gives, and whether a request fits it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping

import numpy as np

from serving.errors import RequestError, invalid

Tensors = Mapping[str, np.ndarray]
# An error message names no more inputs of a request.
_QUOTED_NAMES = 10


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
            return min(shape, default=0) >= 0
        return len(shape) == len(self.shape) and all(
            size >= 0 and allowed in (None, size)
            for allowed, size in zip(self.shape, shape, strict=True)
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
        self.check_names(inputs.keys())
        for name, tensor in inputs.items():
            if tensor.dtype != self.inputs[name].dtype:
                raise self.wrong_type(name, _type_name(tensor))
            self.check_shape(name, tensor.shape)

    def check_names(self, names: Collection[str]) -> None:
        """Raises a RequestError if the names of the inputs are not the signature's."""
        # The counts first: a request may have a million names.
        if len(names) != len(self.inputs) or set(names) != self.inputs.keys():
            raise invalid(self._wrong_names(names))

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Raises a RequestError if an input may not have a shape."""
        spec = self.inputs[name]
        if not spec.allows(shape):
            raise invalid(
                f'Expects input "{name}" of signature "{self.name}" to have shape '
                f"{_show(spec.shape)} but shape {_show(shape)} is provided"
            )

    def wrong_type(self, name: str, type_name: str) -> RequestError:
        """Returns the error of an input of another type."""
        return invalid(
            f'Expects input "{name}" of signature "{self.name}" to be '
            f"{self.inputs[name].type_name} but {type_name} is provided"
        )

    def count_rows(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Returns the number of rows of a request, of its longest input.

        Args:
          shapes: The checked shapes of the inputs, by name.

        Raises:
          RequestError: The outputs have a row for each row of the inputs, and two
            inputs have different numbers of rows.
        """
        rows = {name: shape[0] for name, shape in sorted(shapes.items()) if shape}
        by_row = [name for name in rows if self.inputs[name].has_free_rows]
        if self._has_rows_out and len({rows[name] for name in by_row}) > 1:
            counts = ", ".join(f"{name} has {rows[name]}" for name in by_row)
            raise invalid(
                f'Inputs of signature "{self.name}" must have the same number of '
                f"rows: {counts}"
            )
        return max(rows.values(), default=1)

    @property
    def _has_rows_out(self) -> bool:
        return any(
            spec.has_free_rows or spec.shape is None for spec in self.outputs.values()
        )

    def _wrong_names(self, names: Collection[str]) -> str:
        sent = sorted(itertools.islice(names, _QUOTED_NAMES))
        expected = ",".join(sorted(self.inputs))
        extra = ",".join(name for name in sent if name not in self.inputs)
        missing = ",".join(name for name in sorted(self.inputs) if name not in names)
        if len(names) == len(self.inputs):
            return (
                f"input tensor alias not found in signature: {extra}. Inputs expected "
                f"to be in the set {{{expected}}}."
            )
        more = ",..." if len(names) > len(sent) else ""
        return (
            f"input size does not match signature: {len(names)}!={len(self.inputs)} "
            f"len({{{','.join(sent)}{more}}}) != len({{{expected}}}). "
            f"Sent extra: {{{extra}{more}}}. Missing but required: {{{missing}}}."
        )


def _type_name(tensor: np.ndarray) -> str:
    names = {"object": "string", "float32": "float", "float64": "double"}
    return names.get(tensor.dtype.name, tensor.dtype.name)


def _show(shape: tuple[int | None, ...] | None) -> str:
    sizes = ("?" if size is None else str(size) for size in shape or ())
    return f"[{','.join(sizes)}]"
