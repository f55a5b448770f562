"""Has Beam inspect the signature of a method once.

Beam looks for state and timers in all methods of a DoFn when it is created, translated,
validated and started. In a run of a few rows those are 100,000 inspections of 450
functions and 1.4 of 22 seconds. Source: `get_dofn_specs` in
`apache_beam/transforms/userstate.py`.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

from apache_beam.transforms import core

_Signature = tuple[list[str], list[Any]]


def cache_signatures() -> None:
    """Caches the signatures that Beam inspects in this process. Idempotent."""
    if not hasattr(core.get_function_args_defaults, "__wrapped__"):
        core.get_function_args_defaults = _cached(core.get_function_args_defaults)


def _cached(inspect: Callable[[Any], _Signature]) -> Callable[[Any], _Signature]:
    # Weak keys: the entry of a local function is freed with it.
    signatures: weakref.WeakKeyDictionary[types.FunctionType, _Signature]
    signatures = weakref.WeakKeyDictionary()

    @functools.wraps(inspect)
    def inspect_once(function: Any) -> _Signature:
        method = function.__func__ if isinstance(function, types.MethodType) else None
        if not isinstance(method, types.FunctionType):
            return inspect(function)
        if method not in signatures:
            signatures[method] = inspect(function)
        names, defaults = signatures[method]
        return [*names], [*defaults]  # callers may change them

    return inspect_once
