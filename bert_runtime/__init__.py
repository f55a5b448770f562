"""Predictions of an exported model with ONNX Runtime, without TensorFlow.

>>> from bert_runtime import Model
>>> Model("exported/model").predict(["A text.", "Another one."])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bert_runtime.model import Model as Model

__all__ = ["Model"]


def __getattr__(name: str) -> Any:
    if name != "Model":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # At its first use: `bert-runtime --help` imports this package.
    from bert_runtime.model import Model

    globals()[name] = Model
    return Model


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
