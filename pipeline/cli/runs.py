"""The commands about past runs: runs, show and lineage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from contracts import wording
from contracts.records.checks import CheckResult
from contracts.run_states import MARKS, PUSHED
from contracts.settings.evaluator import describe_selection
from contracts.settings.trainer import TrainerConfig
from pipeline.cli import options
from pipeline.cli.check import print_checks
from pipeline.cli.metric_tables import one_value, verdict_tables
from pipeline.cli.tables import plain_table, short_id
from pipeline.config.paths import OutputPaths
from pipeline.console import Console, print_json
from report.content import PAGE_FILE
from report.formatting import duration, local_time

if TYPE_CHECKING:
    from pipeline.operations.lineage import Node
    from pipeline.operations.run import Run

_SHOWN_REASON = 150
_SHOWN_HASH = 12


@click.command("runs")
@options.of_runs
@options.JSON
def runs_command(paths: OutputPaths, as_json: bool) -> None:
    """List the runs of an output directory, the newest first."""
    from pipeline.operations.runs import RunList

    runs = RunList(paths)
    if as_json:
        print_json([_run_as_json(run) for run in runs])
        return
    if not runs:
        click.echo(f"no runs in {paths.root}")
        return
    ids = [short_id(run.id) for run in runs]
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
            run.record.recipe,
            one_value(run.record.metric, run.record.value),
            _result(run),
            _duration(run.record.seconds),
        )
    Console().print(table)


@click.command("show")
@click.argument("run")
@options.of_runs
@options.JSON
def show_command(paths: OutputPaths, run: str, as_json: bool) -> None:
    """Show RUN: an id that `runs` lists, the start of an id, or `latest`."""
    from pipeline.operations.run import Run
    from pipeline.operations.runs import RunList

    runs = RunList(paths)
    details = runs.find(run)
    record, card = details.record, details.data
    search = details.report.search if details.report else None
    outputs = details
    if runs.reader is None:
        # Without ML Metadata, whose problem `RunList` has logged, the record remains.
        outputs = Run(paths, record.model_copy(update={"tfx_run_id": None}))
    verdict, check = outputs.verdict, outputs.serving_check
    record_files = sorted(details.directory.glob("*"))
    if as_json:
        components = [
            {**vars(component), "is_cached": component.is_cached}
            for component in outputs.components
        ]
        artifacts = outputs.artifacts.items()
        content = {
            **_run_as_json(details),
            "search": search.as_json() if search else {},
            "verdict": verdict.as_json() if verdict else {},
            "checks": [_check_as_json(result) for result in outputs.checks],
            "serving_check": check.as_json() if check else {},
            "components": components,
            "data_card": card.model_dump(mode="json") if card else {},
            "files": list(map(str, record_files)),
            "artifacts": {f"{name}.{key}": a.uri for (name, key), a in artifacts},
        }
        print_json(content)
        return
    console = Console(highlight=False)
    recipe = f", recipe {record.recipe}" if record.recipe else ""
    console.print(f"run {record.id}{recipe}")
    console.print(_result(details, whole=True), soft_wrap=True)
    took = _duration(record.seconds) or "end unknown"
    console.print(f"started {local_time(record.started)}, {took}")
    if record.commits:
        for name, commit in record.commits.parts.items():
            if commit:
                console.print(f"{name.removeprefix('the ')}: commit {commit}")
        for warning in record.commits.warnings:
            console.print(f"warning: {warning}", soft_wrap=True)
    if search:
        console.print(search.sentence, soft_wrap=True)
    if verdict:
        lines = [f"evaluator: {verdict.summary}"]
        if selection := describe_selection(verdict.splits):
            lines.append(selection)
        if override := verdict.override:
            lines.append(
                f"overridden: pushed as version {override.version} by {override.by}: "
                f"{override.reason}"
            )
        for line in lines:
            console.print(line, soft_wrap=True)
        for table in verdict_tables(verdict.metrics):
            console.print(table)
    if check:
        latency = (check.latency_ms or {}).items()
        parts = [f"passed on {wording.count(check.rows, 'row')}"]
        parts += [f"{name} {value:.1f} ms" for name, value in latency]
        line = "; ".join(check.reasons) if check.reasons else ", ".join(parts)
        console.print(f"serving check: {line}")
    print_checks(outputs.checks, console)
    if outputs.components:
        console.print(_components_table(outputs))
    if card:
        sha256 = (card.fingerprint or "")[:_SHOWN_HASH]
        line = f"data: {card.source}" + (f", SHA-256 {sha256}" if sha256 else "")
        console.print(line, soft_wrap=True)
        counts = ", ".join(
            f"{split} {rows.rows:,}" + (f" ({rows.bad} bad)" if rows.bad else "")
            for split, rows in card.splits.items()
        )
        if counts:
            console.print(f"rows: {counts}")
    report = details.directory / PAGE_FILE
    settings_problem = details.settings_problem
    lines = [
        *([f"report: {report}"] if report in record_files else []),
        *([f"settings: {settings_problem}"] if settings_problem else []),
        f"artifacts: {details.paths.artifacts}",
        f"record: {details.directory}",
        f"  {', '.join(path.name for path in record_files)}",
    ]
    for line in lines:
        console.print(line, soft_wrap=True)


@click.command("lineage")
@click.argument("model")
@options.of_runs
@options.JSON
def lineage_command(paths: OutputPaths, model: str, as_json: bool) -> None:
    """Show the lineage of MODEL: data, code, encoder, settings, libraries.

    MODEL is a pushed version, its directory, or a Model artifact: its directory or its
    id in ML Metadata. Hashes are SHA-256, shortened; --json has them in full.
    """
    from pipeline.operations.lineage import trace

    node = trace(paths, model)
    if as_json:
        print_json(dataclasses.asdict(node))
        return
    Console().print(_tree(node))


def _check_as_json(result: CheckResult) -> dict[str, Any]:
    """Returns a result without its rows, which hold data."""
    return result.model_copy(update={"rows": []}).as_json()


def _run_as_json(run: Run) -> dict[str, Any]:
    record, content = run.record, run.record.model_dump(mode="json")
    return {**content, "started": record.started.isoformat(), "seconds": record.seconds}


def _result(run: Run, *, whole: bool = False) -> Text:
    """Returns the state of a run, with the pushed version or the reason."""
    state = Text.assemble((run.state, MARKS[run.state].color))
    version = run.pushed and (run.pushed if whole else run.pushed.name)
    if run.state == PUSHED:
        return state.append(f" {version or ''}")
    if version:
        state.append_text(
            Text.assemble(", overridden: ", ("pushed", "green"), f" {version}")
        )
    reason = run.reason if whole else " ".join(run.reason.split())
    if not whole and len(reason) > _SHOWN_REASON:
        reason = f"{reason[:_SHOWN_REASON]} ..."
    return state.append(f": {reason}") if reason else state


def _duration(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _components_table(run: Run) -> Table:
    columns = ("component", Column("time", justify="right"), "state", "outputs")
    table = plain_table(*columns)
    for component in run.components:
        artifacts = [
            artifact
            for (name, _), artifact in run.artifacts.items()
            if name == component.name
        ]
        deleted = sum(artifact.state == artifact.DELETED for artifact in artifacts)
        is_killed = component.state == "interrupted"
        table.add_row(
            component.name,
            "" if is_killed else duration(component.seconds),
            component.state,
            f"{len(artifacts)}" + (f", {deleted} marked as deleted" if deleted else ""),
        )
    return table


def _tree(node: Node, tree: Tree | None = None) -> Tree:
    title = Text.assemble((node.component, "bold"), f" of run {short_id(node.run)}")
    if node.is_repeated:
        title.append(", see above")
    branch = Tree(title) if tree is None else tree.add(title)
    for name, value in node.facts.items():
        if name.endswith("sha256"):
            value = str(value)[:_SHOWN_HASH]
        if name == "settings":
            value = _changed_settings(value)
        if isinstance(value, dict):
            value = ", ".join(f"{key} {item}" for key, item in value.items())
        branch.add(Text.assemble((name, "dim"), f" {value}"))
    for inner in node.inputs:
        _tree(inner, branch)
    return branch


def _changed_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a training that differ from the defaults."""
    always = ("epochs", "batch_size", "learning_rate", "seed")
    defaults = TrainerConfig().model_dump()
    return {
        name: value
        for name, value in settings.items()
        if name in always or (value or None) != (defaults.get(name) or None)
    }
