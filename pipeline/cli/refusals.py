"""Errors of usage as the command line prints them, with settings as `--set`."""

from __future__ import annotations

import functools
import shlex

import click

from bert_runtime.cli.refusals import show_parameter
from contracts.errors import UsageError, named
from pipeline.cli.options import OVERRIDING
from pipeline.config.recipe import Config


def describe(error: UsageError, command: click.Command) -> str:
    """Returns the message of an error with the options of a command."""
    return named(error.sentence(functools.partial(_show, command)), error.name)


def _show(command: click.Command, name: str, value: str | None) -> str:
    names = {parameter.name for parameter in command.params}
    overriding = OVERRIDING.get(name, "")
    if name not in names and overriding in names:
        return show_parameter(command, overriding, value)
    is_setting = name.partition(".")[0] in Config.model_fields
    if value is not None and name not in names and is_setting and "overrides" in names:
        return f"--set {shlex.quote(f'{name}={value}')}"
    return show_parameter(command, name, value)
