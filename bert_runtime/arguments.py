"""The values that arguments allow, in Python and as options of the commands."""

from __future__ import annotations

import functools
import inspect
import reprlib
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from contracts.errors import SettingError

_P = ParamSpec("_P")
_R = TypeVar("_R")
_ALLOWED = "Input should be "  # how pydantic's messages start
_MANY = inspect.Parameter.VAR_POSITIONAL

MinProbability = Annotated[float, Field(gt=0, le=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
Threads = Annotated[int, Field(ge=1, le=256)]  # each takes memory


def checked(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuses arguments that the annotations do not allow, before a function runs.

    The options of the commands have the same annotations (`bert_runtime.cli.options`).

    Raises:
      UsageError: An argument has another type, or is not in the range.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        bound = signature.bind(*args, **kwargs)
        for name, adapter in _adapters(function).items():
            if name in bound.arguments:
                value = bound.arguments[name]
                is_many = signature.parameters[name].kind is _MANY
                checked = _check(name, value if is_many else (value,), adapter)
                bound.arguments[name] = checked if is_many else checked[0]
        return function(*bound.args, **bound.kwargs)

    return call


@functools.cache
def _adapters(function: Callable[..., Any]) -> dict[str, TypeAdapter[tuple[Any, ...]]]:
    """Returns what validates values of each argument that has an annotation."""
    config = ConfigDict(strict=True, arbitrary_types_allowed=True)
    function = inspect.unwrap(function)
    # The type that it returns may be imported for type checkers only.
    annotations = {k: v for k, v in function.__annotations__.items() if k != "return"}
    hints = typing.get_type_hints(
        types.SimpleNamespace(__annotations__=annotations),
        function.__globals__,
        include_extras=True,
    )
    # In a tuple, as pydantic has no configuration for a class alone.
    return {
        name: TypeAdapter(tuple[hint, ...], config=config)  # type: ignore[valid-type]
        for name, hint in hints.items()
    }


def _check(
    name: str, values: tuple[Any, ...], adapter: TypeAdapter[tuple[Any, ...]]
) -> tuple[Any, ...]:
    try:
        return adapter.validate_python(values)
    except ValidationError as error:
        # A union has a message for each of its types; the last is of an item, if any.
        details = error.errors()
        messages = dict.fromkeys(detail["msg"] for detail in details)
        allowed = (m.removeprefix(_ALLOWED) for m in messages if _ALLOWED in m)
        raise SettingError(
            name, reprlib.repr(details[-1]["input"]), " or ".join(allowed)
        ) from error
