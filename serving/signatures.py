"""The inputs and outputs of a signature, and the checks of a request against them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping

import numpy as np

from serving.errors import invalid

DEFAULT_SIGNATURE = "serving_default"
SIGNATURE_DEF = "signature_def"  # field of the metadata API
Tensors = Mapping[str, np.ndarray]
TypeAndShape = tuple[np.dtype, tuple[int, ...]]
_QUOTED_NAMES = 10  # a request may have a million inputs


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """The type and shape of an input or an output.

    Attributes:
      dtype: NumPy's type; `object`, holding bytes, for strings.
      shape: Sizes, with None for a size that may vary; None for any shape.
    """

    dtype: np.dtype
    shape: tuple[int | None, ...] | None

    @property
    def type_name(self) -> str:
        """The name of the type in error messages."""
        return _type_name(self.dtype)

    @property
    def has_free_rows(self) -> bool:
        """Whether axis 0 may have any size."""
        return self.shape is not None and self.shape[:1] == (None,)

    def allows(self, dtype: np.dtype, shape: tuple[int, ...]) -> bool:
        """Returns whether a tensor may have a type and shape."""
        if self.dtype != dtype or min(shape, default=0) < 0:
            return False
        return self.shape is None or (
            len(self.shape) == len(shape)
            and all(
                allowed in (None, size)
                for allowed, size in zip(self.shape, shape, strict=True)
            )
        )


@dataclasses.dataclass(frozen=True)
class Signature:
    """A signature of a SavedModel.

    Attributes:
      name: The name.
      inputs: The inputs by name, in alphabetical order.
      outputs: The outputs by name, in alphabetical order.
    """

    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    @property
    def is_by_row(self) -> bool:
        """Whether every input and output has the same rows, by the shapes.

        The batcher checks outputs of unknown shape when they are computed.
        """
        return (
            bool(self.inputs)
            and all(spec.has_free_rows for spec in self.inputs.values())
            and all(
                spec.has_free_rows or spec.shape is None
                for spec in self.outputs.values()
            )
        )

    def check_names(self, sent: Collection[str]) -> None:
        """Raises a RequestError if the inputs of a request have other names."""
        if len(sent) == len(self.inputs) and set(sent) == self.inputs.keys():
            return
        quoted = [repr(name) for name in itertools.islice(sent, _QUOTED_NAMES)]
        if len(sent) > _QUOTED_NAMES:
            quoted.append("...")
        raise invalid(
            "inputs",
            f"the request has {len(sent)}: {', '.join(quoted)}",
            f'those of signature "{self.name}": {", ".join(self.inputs)}',
        )

    def check(self, sent: Mapping[str, TypeAndShape]) -> int:
        """Checks the inputs of a request.

        Args:
          sent: The types and shapes of the request's inputs, by name.

        Returns:
          The rows of the request: those of its longest input.

        Raises:
          RequestError: The inputs have other names, types or shapes than those of the
            signature, or different numbers of rows.
        """
        self.check_names(sent)
        for name, spec in self.inputs.items():
            if not spec.allows(*sent[name]):
                raise invalid(
                    name,
                    f"the request has {_show(*sent[name])}",
                    f'{_show(spec.dtype, spec.shape)} in signature "{self.name}"',
                )
        rows = {name: sent[name][1][0] for name in self.inputs if sent[name][1]}
        by_row = [name for name in rows if self.inputs[name].has_free_rows]
        has_output_rows = any(
            spec.has_free_rows or spec.shape is None for spec in self.outputs.values()
        )
        if has_output_rows and len({rows[name] for name in by_row}) > 1:
            counts = ", ".join(f"{name} has {rows[name]}" for name in by_row)
            raise invalid("inputs", counts, "the same number of rows in each")
        return max(rows.values(), default=1)


def _type_name(dtype: np.dtype) -> str:
    return "string" if dtype.kind == "O" else dtype.name


def _show(dtype: np.dtype, shape: tuple[int | None, ...] | None) -> str:
    if shape is None:
        return _type_name(dtype)
    sizes = ("?" if size is None else str(size) for size in shape)
    return f"{_type_name(dtype)}[{','.join(sizes)}]"
