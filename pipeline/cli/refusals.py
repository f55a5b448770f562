"""Errors of usage as the command line prints them, with the names of its options."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import click

from contracts.errors import SettingError, UsageError, named
from pipeline.cli.options import OVERRIDING
from pipeline.config.recipe import Config


def describe(error: UsageError, command: click.Command) -> str:
    """Returns the message of an error with the options of a command."""
    return named(error.sentence(_show_for(command)), error.name)


def from_click(error: click.UsageError) -> UsageError:
    """Returns the error of an option or an argument that click refuses."""
    context = error.ctx
    advice = f"see {context.command_path} --help" if context else None
    match error:
        case click.MissingParameter(param=click.Parameter() as parameter):
            choices = parameter.type.get_missing_message(parameter, context)
            allowed = choices and " ".join(choices.split())
            return UsageError(
                parameter.name, "missing", allowed, advice, name="E-option-missing"
            )
        case click.NoSuchOption(option_name=option, possibilities=similar):
            if similar:
                advice = f"did you mean {' or '.join(sorted(similar))}?"
            return SettingError(option, "no such option", advice=advice)
        case click.BadParameter(param=click.Parameter() as parameter):
            return SettingError(
                parameter.name, error.message.rstrip("."), advice=advice
            )
    return SettingError(got=error.message.rstrip("."), advice=advice)


def _show_for(command: click.Command) -> Callable[[str, str | None], str]:
    parameters = {parameter.name: parameter for parameter in command.params}

    def show(name: str, value: str | None) -> str:
        parameter = parameters.get(name) or parameters.get(OVERRIDING.get(name, ""))
        written = name if value is None else f"{name}={value}"
        if isinstance(parameter, click.Option):
            option = max(parameter.opts, key=len)
            if value is None or parameter.is_flag:
                return option
            # Several values are several words.
            return f"{option} {shlex.quote(value) if parameter.nargs == 1 else value}"
        if parameter is not None:
            return parameter.human_readable_name.strip("[]") if value is None else value
        is_setting = name.partition(".")[0] in Config.model_fields
        if value is not None and is_setting and "overrides" in parameters:
            return f"--set {shlex.quote(written)}"
        return written

    return show
