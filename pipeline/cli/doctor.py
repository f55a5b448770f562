"""The `doctor` command."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click
from rich.table import Column, Table
from rich.text import Text

from contracts.errors import UsageError
from modules import environment
from pipeline import exit_status
from pipeline.cli import options, refusals
from pipeline.console import Console, print_json

_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("doctor")
@options.CONFIG
@options.DATA
@options.ENCODER
@options.OUTPUT
@options.SET
@options.JSON
def doctor_command(
    config_file: Path,
    data: str | None,
    encoder: str | None,
    output: str | None,
    overrides: dict[str, Any],
    as_json: bool,
) -> None:
    """Check this machine, the installed packages, and the inputs of a recipe.

    It takes a few seconds, and writes and downloads nothing. Exit status: 0 if a run
    can start, 1 if there is an error.
    """
    options.override_sources(overrides, data, encoder, output)
    environment.set_up(quiet=True)
    from pipeline.local.checks import run_checks

    checks = []
    with Console(stderr=True).status("checking") as status:
        for check in run_checks(config_file, overrides):
            if isinstance(check.value, UsageError):
                described = refusals.describe(check.value, doctor_command)
                check = dataclasses.replace(check, value=described)
            checks.append(check)
            status.update(f"checked: {check.name}")
    if as_json:
        content = [dataclasses.asdict(check) for check in checks]
        print_json(content)
    else:
        result = Column("result", overflow="fold")
        table = Table(Column("check", no_wrap=True), Column("", no_wrap=True), result)
        for check in checks:
            text = Text(str(check.value))
            if check.advice:
                text.append(f"\n→ {check.advice}", "bold")
            table.add_row(check.name, Text(check.status, _STYLES[check.status]), text)
        Console().print(table)
    is_failed = any(check.status == "error" for check in checks)
    sys.exit(exit_status.FAILURE if is_failed else exit_status.SUCCESS)
