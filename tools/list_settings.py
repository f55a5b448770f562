"""Writes docs/settings.md from docstrings: `python -m tools.list_settings`."""

import inspect
import re
import typing
from collections.abc import Iterator

from pydantic import BaseModel

from pipeline.config import policy
from pipeline.config.beam import BeamConfig
from pipeline.config.paths import REPOSITORY
from pipeline.config.policy import Policy
from pipeline.config.recipe import Config

DOCUMENT = REPOSITORY / "docs" / "settings.md"
_ATTRIBUTE = re.compile(r"^  (\w+): (.*?)(?=^  \w+: |\Z)", re.MULTILINE | re.DOTALL)
_HEAD = """# Settings

Every setting of a recipe. `--set SECTION.NAME=VALUE` overrides one. The sections
`kubeflow.beam` and `vertex.beam` have the settings of `beam`.

The error for an unknown setting or an invalid value lists the allowed ones. Recipes and
`--set` are YAML with the numbers of YAML 1.2: `1e-5` is a number and `010` is 10. A
number or boolean stays text if the setting is a string: `beam.flink_version: 1.20` is
the version 1.20, and `classes: [no, yes]` are two names. Quotes always make a string;
in a shell, quote twice: `--set "name='1e5'"`. For a string setting, `--set` keeps what
YAML would not, such as `--set data.delimiter=#`, unless the value is in quotes or
brackets; `null` unsets it.

`python -m tools.list_settings` writes this page.
"""
_POLICY = f"""
## Policy

The settings of `{policy.FILE}`, which hold for all recipes of a project
([data.md](data.md#forbidden-columns), [runs.md](runs.md#the-commit-of-a-run)). A recipe
and `--set` cannot change them.
"""


def to_markdown(model: type[BaseModel], section: str = "") -> Iterator[str]:
    """Yields the lines of a section's table, and of the sections in it."""
    meanings: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        text = inspect.cleandoc(owner.__doc__ or "").partition("Attributes:\n")[2]
        meanings |= {name: " ".join(m.split()) for name, m in _ATTRIBUTE.findall(text)}
    yield f"\n## {section.rstrip('.') or 'Top level'}\n"
    yield "| setting | default | meaning |\n|---|---|---|"
    sections = {}
    for name, field in model.model_fields.items():
        (kind, *_) = typing.get_args(field.annotation) or (field.annotation,)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            sections[name] = kind
            continue
        value = field.get_default(call_default_factory=True)
        default = "required" if field.is_required() else f"`{value}`"
        yield f"| `{section}{name}` | {default} | {meanings[name]} |"
    for name, kind in sections.items():
        if kind is not BeamConfig or not section:
            yield from to_markdown(kind, f"{section}{name}.")


def page() -> str:
    """Returns the content of docs/settings.md."""
    (_, *rows) = to_markdown(Policy)
    lines = [_HEAD.rstrip("\n"), *to_markdown(Config), _POLICY.rstrip("\n"), *rows, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    DOCUMENT.write_text(page())
