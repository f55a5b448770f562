"""The `completion` command, and completions for the options of other commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem, get_completion_class
from pydantic import BaseModel

from components.model_checks.registry import split_key
from contracts.errors import SettingError
from pipeline.config.recipe import Config
from pipeline.config.typed_yaml import member

PROGRAM = "bert-pipeline"
_INSTALL = {
    "bash": f'add to ~/.bashrc: eval "$({PROGRAM} completion bash)"',
    "zsh": f'add to ~/.zshrc, after compinit: eval "$({PROGRAM} completion zsh)"',
    "fish": f"add to ~/.config/fish/config.fish: {PROGRAM} completion fish | source",
}
_BASH_APPENDS = "COMPREPLY+=($value)"  # a line of click's script


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_INSTALL)), required=False)
def completion_command(shell: str | None) -> None:
    """Print the completion script of a shell, by default of $SHELL.

    Its first line shows how to install it. It completes the command `bert-pipeline`:
    commands, options, choices, recipes and the names of settings.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _INSTALL:
        allowed = ", ".join(_INSTALL)
        raise SettingError("shell", shell or "unknown", allowed)
    complete = get_completion_class(shell)
    assert complete is not None
    variable = f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE"
    group = click.get_current_context().find_root().command
    script = complete(group, {}, PROGRAM, variable).source()
    if shell == "bash":
        # Bash would add a space after `KEY=`, but the value must follow directly.
        no_space = "[[ $value == *= ]] && compopt -o nospace"
        script = script.replace(_BASH_APPENDS, f"{_BASH_APPENDS}; {no_space}")
    click.echo(f"# {_INSTALL[shell]}\n{script}")


def complete_recipe(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Completes YAML files, or any path if no YAML file matches."""
    folder, name = os.path.split(incomplete)
    files = sorted(
        path.name
        for path in Path(folder or ".").glob("*.y*ml")
        if path.name.startswith(name)
    )
    if not files:
        return complete_path(ctx, parameter, incomplete)
    return [CompletionItem(os.path.join(folder, file)) for file in files]


def complete_path(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Lets the shell complete files and directories."""
    return [CompletionItem(incomplete, type="file")]


def complete_setting(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Completes `KEY=`, and `KEY=VALUE` if the values of the setting are known."""
    key, is_set, start = incomplete.partition("=")
    if is_set:
        kind: Any = Config
        for name in split_key(key):
            kind = member(kind, name)
        values = [value for value in _values(kind) if value.startswith(start)]
        return [CompletionItem(f"{key}={value}") for value in values]
    return [
        CompletionItem(f"{name}=", help=default)
        for name, default in _settings(Config)
        if name.startswith(incomplete)
    ]


def _settings(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields the dotted key of each setting, and its default."""
    for name, field in model.model_fields.items():
        kinds = get_args(field.annotation) or (field.annotation,)
        is_list = get_origin(field.annotation) is list
        if (
            not is_list
            and isinstance(kinds[0], type)
            and issubclass(kinds[0], BaseModel)
        ):
            yield from _settings(kinds[0], f"{prefix}{name}.")
        elif field.is_required():
            yield f"{prefix}{name}", "required"
        else:
            default = field.get_default(call_default_factory=True)
            yield f"{prefix}{name}", f"default: {default}"


def _values(kind: Any) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    elif kind is bool:
        yield from ("true", "false")
    else:
        for option in get_args(kind):
            if get_origin(option) is Literal or option is bool:
                yield from _values(option)
