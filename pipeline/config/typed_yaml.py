"""Reads YAML by the types of the settings: `1.20` stays text if it is a string."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

from contracts.errors import UsageError

_TAG = "tag:yaml.org,2002:"
_INT, _FLOAT, _DATE = (_TAG + name for name in ("int", "float", "timestamp"))
# The numbers of YAML 1.2, and `1_000`. PyYAML implements YAML 1.1, where `1e-5` is a
# string, `010` is 8 and `1:30` is 90.
_NUMBERS = {
    _INT: re.compile(r"[-+]?[0-9][0-9_]*$"),
    _FLOAT: re.compile(
        r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?$"
        r"|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
    ),
}
# Tags of values that stay text if the setting is a string, such as `1.20` and `no`.
_NOT_STRINGS = (*_NUMBERS, _TAG + "bool")
# What is YAML even if the setting is a string: null, strings in quotes, and lists and
# mappings, which are refused as values of the setting.
_YAML_STRING = re.compile(r"null|Null|NULL|(['\"]).*\1|\[.*\]|\{.*\}", re.DOTALL)


class _Loader(yaml.SafeLoader):
    """Reads the numbers of `_NUMBERS`, and dates as strings."""


class _Dumper(yaml.SafeDumper):
    """Also quotes the strings that `_Loader` would read as numbers."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] not in (_INT, _FLOAT, _DATE)]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag, _pattern, list("-+.0123456789"))
_Loader.add_constructor(_INT, lambda _, node: int(node.value.replace("_", "")))


def load(text: str, kind: Any = Any) -> Any:
    """Reads YAML as a setting.

    Args:
      text: One YAML document.
      kind: Type of the setting: a model, or an annotation such as `list[str]`. A
        number or boolean stays text where the type is a string, also as a key.

    Raises:
      yaml.YAMLError: The text is not YAML.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _tag_strings(node, kind)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def read(path: Path, kind: Any) -> dict[str, Any]:
    """Returns the settings in a file; see `load`.

    Raises:
      UsageError: The file cannot be read, or has no mapping of settings.
    """
    try:
        settings = load(path.read_text(encoding="utf-8"), kind)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        got: str | None = f"not valid YAML: {error}"
        if isinstance(error, OSError):
            got = error.strerror
        raise UsageError(
            str(path),
            got,
            advice="correct the path, or the file",
            name="E-config-unreadable",
        ) from error
    if not isinstance(settings, dict | None):
        raise UsageError(
            str(path),
            "not a mapping of settings",
            advice="correct the path, or the file",
            name="E-config-unreadable",
        )
    return settings or {}


def load_value(text: str, kind: Any = Any) -> Any:
    """Reads a value of the command line as a setting.

    Args:
      text: YAML. If the setting is a string, only what is empty, `null`, in quotes or
        in brackets is YAML: `#` and `~` stay text.
      kind: Type of the setting.

    Raises:
      yaml.YAMLError: The text is not YAML.
    """
    is_string = all(option in (str, types.NoneType) for option in _options(kind))
    if is_string and text and not _YAML_STRING.fullmatch(text.strip()):
        return text.strip() or text  # white space may be a delimiter
    return load(text, kind)


def dump(settings: dict[str, Any]) -> str:
    """Returns settings as YAML that `load` reads back equal."""
    return yaml.dump(settings, Dumper=_Dumper, sort_keys=False)


def member(kind: Any, key: str | int) -> Any:
    """Returns the type of the setting `key` in a section; `Any` if it is unknown.

    Args:
      kind: Type of the section, or of a list of sections.
      key: Name of the setting, or index of the section in the list.
    """
    for option in _options(kind):
        if isinstance(key, int):
            if get_origin(option) in (list, tuple):
                return get_args(option)[0]
            continue
        if get_origin(option) is dict:
            return get_args(option)[1]
        if isinstance(option, type) and issubclass(option, BaseModel):
            field = option.model_fields.get(key)
            return field.annotation if field else Any
    return Any


def members(kind: Any) -> list[str] | None:
    """Returns the names of the settings in a section; None if it has no fixed ones."""
    for option in _options(kind):
        if isinstance(option, type) and issubclass(option, BaseModel):
            is_open = option.model_config.get("extra") == "allow"
            return None if is_open else list(option.model_fields)
    return None


def _tag_strings(node: yaml.Node, kind: Any) -> None:
    options = _options(kind)
    if isinstance(node, yaml.ScalarNode):
        is_text = any(o is str or get_origin(o) is Literal for o in options)
        if is_text and node.tag in _NOT_STRINGS:
            node.tag = _TAG + "str"
    elif isinstance(node, yaml.SequenceNode):
        # A section that may be a list is short for one with a setting of this type.
        kinds = [*options, *_setting_types(options)]
        items = (get_args(o)[0] for o in kinds if get_origin(o) is list)
        item_kind = next(items, Any)
        if item_kind is not Any:
            for item in node.value:
                _tag_strings(item, item_kind)
    elif kind is not Any:
        has_text_keys = any(
            get_origin(o) is dict and get_args(o)[0] is str for o in options
        )
        for key, value in node.value:
            is_merge = key.tag == _TAG + "merge"
            if has_text_keys:  # such as the class `no`
                _tag_strings(key, str)
            _tag_strings(value, kind if is_merge else member(kind, key.value))


def _setting_types(options: tuple[Any, ...]) -> Iterator[Any]:
    """Yields the types of the settings of sections."""
    for option in options:
        if isinstance(option, type) and issubclass(option, BaseModel):
            for field in option.model_fields.values():
                yield field.annotation


def _options(kind: Any) -> tuple[Any, ...]:
    """Returns the types of a union: `str` and `None` of `str | None`."""
    is_union = get_origin(kind) in (Union, types.UnionType)
    return get_args(kind) if is_union else (kind,)
