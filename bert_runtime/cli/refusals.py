"""Errors of usage as a command line prints them, with the names of its options."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping

import click

from contracts.errors import SettingError, UsageError, named

_USAGE = 2


@contextlib.contextmanager
def refusing(
    context: click.Context, report: Callable[[UsageError, click.Command], None]
) -> Iterator[None]:
    """Reports an error of usage, ours or click's, and exits with status 2.

    Args:
      context: The context of a group of commands.
      report: Prints the error of a command.
    """
    group = context.command
    assert isinstance(group, click.Group)
    try:
        yield
    except UsageError as error:
        name = context.invoked_subcommand or ""
        report(error, group.get_command(context, name) or group)
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        report(from_click(error), error.ctx.command if error.ctx else group)
    else:
        return
    context.exit(_USAGE)


def describe(
    error: UsageError, command: click.Command, settings: Mapping[str, str]
) -> str:
    """Returns the message of an error with the options of a command.

    Args:
      error: The error.
      command: The command.
      settings: The argument in Python that sets a setting, by the setting's key.
    """

    def show(name: str, value: str | None) -> str:
        return show_parameter(command, settings.get(name, name), value)

    return named(error.sentence(show), error.name)


def show_parameter(command: click.Command, name: str, value: str | None) -> str:
    """Returns how a command line sets an argument, as `UsageError.sentence` needs it.

    Args:
      command: The command.
      name: The argument's name in Python.
      value: Its value; None if only the name is shown.
    """
    parameter = next((each for each in command.params if each.name == name), None)
    if isinstance(parameter, click.Option):
        option = max(parameter.opts, key=len)
        if value is None or parameter.is_flag:
            return option
        # Several values are several words.
        return f"{option} {shlex.quote(value) if parameter.nargs == 1 else value}"
    if parameter is not None:
        return parameter.human_readable_name.strip("[]") if value is None else value
    return name if value is None else f"{name}={value}"


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
