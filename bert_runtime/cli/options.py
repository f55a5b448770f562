"""Types of options."""

from __future__ import annotations

import math
from typing import Any

import click
from pydantic import TypeAdapter


class FloatRange(click.FloatRange):
    """A range of numbers, which NaN is not in."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Returns the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def allowed(kind: Any) -> click.ParamType[Any]:
    """Returns the type of an option from the annotation of Python's argument."""
    schema = TypeAdapter(kind).json_schema()
    if "enum" in schema:
        return click.Choice(schema["enum"])
    of_number = click.IntRange if schema["type"] == "integer" else FloatRange
    return of_number(
        schema.get("minimum", schema.get("exclusiveMinimum")),
        schema.get("maximum", schema.get("exclusiveMaximum")),
        min_open="exclusiveMinimum" in schema,
        max_open="exclusiveMaximum" in schema,
    )
