"""Templates of pages, with the style and the scripts that pages share."""

from __future__ import annotations

import base64
import datetime
import functools
import hashlib
from pathlib import Path
from typing import Any

import jinja2
import yaml

from contracts import wording
from report import formatting

_DIRECTORY = Path(__file__).parent
_SHORT_HASH = 12
_FILTERS = (
    *("number", "score", "difference", "percent", "duration", "size", "shorten"),
    *("setting_value", "threshold", "cell", "interval", "sentence"),
)


@functools.cache
def environment(*directories: Path) -> jinja2.Environment:
    """Returns the environment of templates, which escapes all texts.

    Args:
      directories: Further directories with templates, besides this package.
    """
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*directories, _DIRECTORY]),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {name: getattr(formatting, name) for name in _FILTERS}
    templates.filters |= {
        "yaml": functools.partial(
            yaml.safe_dump, sort_keys=False, allow_unicode=True, width=80
        ),
        "count": wording.count,
        "date": _date,
        "short_hash": _short_hash,
    }
    templates.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    return templates


def style() -> str:
    """Returns the style of all pages."""
    return (_DIRECTORY / "page.css").read_text("utf-8")


def script(*names: str) -> str:
    """Returns scripts of this package, joined."""
    return "\n".join((_DIRECTORY / name).read_text("utf-8") for name in names)


def policy(style: str, script: str) -> str:
    """Returns a content security policy that allows nothing but two elements.

    Args:
      style: The content of the style element.
      script: The content of the script element.
    """
    return (
        f"default-src 'none'; style-src {_source(style)}; "
        f"script-src {_source(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _finalize(value: Any) -> Any:
    if value is None:
        return ""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return formatting.printable(value) if is_text else value


def _date(text: str) -> str:
    try:
        return f"{datetime.datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return text


def _short_hash(version: str) -> str:
    """Returns the start of a hash; other versions are unchanged."""
    is_hash = len(version) > 2 * _SHORT_HASH and version.isalnum()
    return version[:_SHORT_HASH] if is_hash else version
