"""The commands about what was run: runs, show and lineage."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.tree import Tree

from modules import files
from modules.report.content import PAGE_FILE
from modules.report.formats import duration
from modules.run_states import MARKS
from pipeline.cli import options
from pipeline.cli.metric_tables import one_value, verdict_tables
from pipeline.cli.tables import SHORT_ID, plain_table

if TYPE_CHECKING:
    from modules.verdicts import ServingReport
    from pipeline.history.lineage import Node
    from pipeline.history.run_outputs import RunOutputs
    from pipeline.history.run_record import RunRecord
    from pipeline.history.runs import Run

_SHOWN_REASON = 150
_SHOWN_HASH = 12


@click.command("runs")
@options.RUNS_OUTPUT
@options.RUNS_CONFIG
@options.JSON
def runs_command(output: str | None, config_file: Path | None, as_json: bool) -> None:
    """List the runs of an output directory, the newest first."""
    paths = options.find_output(config_file, output)
    from pipeline.history.runs import RunList

    runs = RunList(paths)
    if as_json:
        _print_json([_run_as_json(run) for run in runs])
        return
    if not runs:
        click.echo(f"no runs in {paths.root}")
        return
    ids = [run.id[:SHORT_ID] for run in runs]
    table = plain_table(
        Column("run", no_wrap=True),
        Column("recipe", no_wrap=True, max_width=14),
        Column("metric"),
        Column("result", overflow="fold"),
        Column("time", no_wrap=True, justify="right"),
    )
    for run, short in zip(runs, ids, strict=True):
        table.add_row(
            short if ids.count(short) == 1 else run.id,
            escape(run.recipe),
            escape(one_value(run.metric, run.value)),
            _result(run),
            _duration(run.seconds),
        )
    Console().print(table)


@click.command("show")
@click.argument("run")
@options.RUNS_OUTPUT
@options.RUNS_CONFIG
@options.JSON
def show_command(
    run: str, output: str | None, config_file: Path | None, as_json: bool
) -> None:
    """Show RUN: an id of `runs`, the start of one, or `latest`."""
    paths = options.find_output(config_file, output)
    from pipeline.history.runs import Run, RunList

    details = Run(paths, RunList(paths).find(run))
    if as_json:
        _print_json(_details_as_json(details))
    else:
        _show(details, Console(highlight=False))


@click.command("lineage")
@click.argument("model")
@options.RUNS_OUTPUT
@options.RUNS_CONFIG
@options.JSON
def lineage_command(
    model: str, output: str | None, config_file: Path | None, as_json: bool
) -> None:
    """Show what MODEL was made of: data, code, encoder, settings, libraries.

    MODEL is a pushed version, its directory, or a Model artifact: its directory or its
    id in ML Metadata. Hashes are SHA-256, shortened; --json has them in full.
    """
    paths = options.find_output(config_file, output)
    from pipeline.history.lineage import trace

    node = trace(paths, model)
    if as_json:
        _print_json(dataclasses.asdict(node))
        return
    Console().print(_tree(node))


def _run_as_json(run: RunRecord) -> dict[str, Any]:
    content = run.model_dump(mode="json")
    return {**content, "started": run.started.isoformat(), "seconds": run.seconds}


def _print_json(content: Any) -> None:
    click.echo(json.dumps(content, ensure_ascii=False, indent=1, default=str))


def _result(run: RunRecord, *, whole: bool = False) -> str:
    """Returns the state of a run, with the version or why nothing was pushed."""
    state = f"[{MARKS[run.state].color}]{run.state}[/]"
    version = (run.pushed or "") if whole else Path(run.pushed or "").name
    if run.state == "pushed":
        return f"{state} {escape(version)}"
    if run.pushed:
        state += f", overridden: [green]pushed[/] {escape(version)}"
    reason = run.reason if whole else " ".join(run.reason.split())
    if not whole and len(reason) > _SHOWN_REASON:
        reason = f"{reason[:_SHOWN_REASON]} ..."
    return f"{state}: {escape(reason)}" if reason else state


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _details_as_json(run: Run) -> dict[str, Any]:
    outputs, verdict = run.outputs, run.outputs.verdict
    check, artifacts = outputs.serving_check, outputs.artifacts.items()
    return {
        **_run_as_json(run.record),
        "verdict": verdict.as_json() if verdict else {},
        "serving_check": check.model_dump(mode="json") if check else {},
        "components": [
            {**vars(component), "is_cached": component.is_cached}
            for component in outputs.components
        ],
        "data_card": _data_card(run),
        "files": list(map(str, _files(run))),
        "artifacts": {f"{name}.{key}": a.uri for (name, key), a in artifacts},
    }


def _show(run: Run, console: Console) -> None:
    record = run.record
    console.print(f"run {record.id}, recipe {escape(record.recipe)}")
    console.print(_result(record, whole=True), soft_wrap=True)
    took = _duration(record.seconds) or "end unknown"
    console.print(f"started {record.started:%Y-%m-%d %H:%M:%S}, {took}")
    _show_verdicts(run.outputs, console)
    if run.outputs.components:
        console.print(_components_table(run))
    if card := _data_card(run):
        _show_data(card, console)
    report = run.directory / PAGE_FILE
    lines = [
        *([f"report: {report}"] if report.exists() else []),
        f"artifacts: {run.paths.artifacts}",
        f"record: {run.directory}",
        f"  {', '.join(path.name for path in _files(run))}",
    ]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _data_card(run: Run) -> dict[str, Any]:
    from pipeline.inputs.examples.card import CARD_FILE

    return files.read_record(str(run.directory / CARD_FILE)) or {}


def _files(run: Run) -> list[Path]:
    return sorted(run.directory.iterdir())


def _show_verdicts(outputs: RunOutputs, console: Console) -> None:
    verdict, check = outputs.verdict, outputs.serving_check
    if verdict:
        lines = [f"verdict: {verdict.summary}"]
        if override := verdict.override:
            lines.append(
                f"overridden: pushed as version {override.version} by {override.by}: "
                f"{override.reason}"
            )
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)
        for table in verdict_tables(verdict.metrics):
            console.print(table)
    if check:
        console.print(f"serving check: {_describe_check(check)}", markup=False)


def _components_table(run: Run) -> Table:
    columns = ("component", Column("time", justify="right"), "state", "outputs")
    table = plain_table(*columns)
    for component in run.outputs.components:
        artifacts = [
            artifact
            for (name, _), artifact in run.outputs.artifacts.items()
            if name == component.name
        ]
        deleted = sum(artifact.state == artifact.DELETED for artifact in artifacts)
        is_killed = component.state == "interrupted"
        table.add_row(
            component.name,
            "" if is_killed else duration(component.seconds),
            component.state,
            f"{len(artifacts)}" + (f", {deleted} deleted" if deleted else ""),
        )
    return table


def _describe_check(check: ServingReport) -> str:
    if check.reasons:
        return "; ".join(check.reasons)
    parts = [f"passed on {check.rows} rows"]
    latency = check.latency_ms or {}
    parts += [f"{name} {value:.1f} ms" for name, value in latency.items()]
    return ", ".join(parts)


def _show_data(card: Mapping[str, Any], console: Console) -> None:
    rows = ", ".join(
        f"{split} {counts['rows']:,}"
        + (f" ({counts['bad']} bad)" * bool(counts["bad"]))
        for split, counts in card["splits"].items()
    )
    fingerprint = (card["fingerprint"] or "")[:_SHOWN_HASH]
    console.print(
        f"data: {card['source']}" + (f", SHA-256 {fingerprint}" * bool(fingerprint)),
        markup=False,
        soft_wrap=True,
    )
    if rows:
        console.print(f"rows: {rows}", markup=False)


def _tree(node: Node, tree: Tree | None = None) -> Tree:
    title = f"[bold]{escape(node.component)}[/] of run {node.run[:SHORT_ID]}"
    if node.is_repeated:
        title += ", see above"
    branch = Tree(title) if tree is None else tree.add(title)
    for name, value in node.facts.items():
        branch.add(f"[dim]{escape(name)}[/] {escape(_fact(name, value))}")
    for inner in node.inputs:
        _tree(inner, branch)
    return branch


def _fact(name: str, value: Any) -> str:
    if name.endswith("sha256"):
        return str(value)[:_SHOWN_HASH]
    if name == "settings":
        value = _changed_settings(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)


def _changed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a training that are not the defaults."""
    from modules.config.trainer import TrainerConfig

    always = ("epochs", "batch_size", "learning_rate", "seed")
    defaults = TrainerConfig().model_dump()
    return {
        name: value
        for name, value in settings.items()
        if name in always or (value or None) != (defaults.get(name) or None)
    }
