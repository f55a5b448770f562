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

from pipeline.cli import options
from pipeline.cli.tables import SHORT_ID, duration, plain_table

if TYPE_CHECKING:
    from pipeline.history.lineage import Node
    from pipeline.history.run_outputs import RunOutputs
    from pipeline.history.run_record import RunRecord

_STYLES = {
    "pushed": "green",
    "running": "cyan",
    "refused": "yellow",
    "data refused": "yellow",
    "failed": "red",
    "interrupted": "red",
}
_SHOWN_REASON = 150
_SHOWN_HASH = 12


@click.command("runs")
@options.RUNS
@options.RECIPE
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
            escape(_metric(run)),
            _result(run),
            duration(run.seconds),
        )
    Console().print(table)


@click.command("show")
@click.argument("run")
@options.RUNS
@options.RECIPE
@options.JSON
def show_command(
    run: str, output: str | None, config_file: Path | None, as_json: bool
) -> None:
    """Show RUN: an id of `runs`, the start of one, or `latest`."""
    paths = options.find_output(config_file, output)
    from pipeline.history.runs import RunList

    runs = RunList(paths)
    record = runs.find(run)
    details = _RunDetails(record, runs.outputs(record), paths.run(record.id))
    if as_json:
        _print_json(details.as_json())
    else:
        details.show(Console(highlight=False), paths.artifacts)


@click.command("lineage")
@click.argument("model")
@options.RUNS
@options.RECIPE
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


def _metric(run: RunRecord) -> str:
    return "" if run.value is None else f"{run.metric} {run.value:.4f}"


def _result(run: RunRecord, *, whole: bool = False) -> str:
    """Returns the state of a run, with the version or why nothing was pushed."""
    state = f"[{_STYLES[run.state]}]{run.state}[/]"
    version = (run.pushed or "") if whole else Path(run.pushed or "").name
    if run.state == "pushed":
        return f"{state} {escape(version)}"
    if run.pushed:
        state += f", overridden: [green]pushed[/] {escape(version)}"
    reason = run.reason if whole else " ".join(run.reason.split())
    if not whole and len(reason) > _SHOWN_REASON:
        reason = f"{reason[:_SHOWN_REASON]} ..."
    return f"{state}: {escape(reason)}" if reason else state


@dataclasses.dataclass(frozen=True)
class _RunDetails:
    """What `show` prints of a run.

    Attributes:
      record: How it ended.
      outputs: What its components wrote.
      directory: The directory of the record.
    """

    record: RunRecord
    outputs: RunOutputs
    directory: Path

    @property
    def data_card(self) -> dict[str, Any]:
        card = self.directory / "data_card.json"
        return json.loads(card.read_bytes()) if card.is_file() else {}

    @property
    def files(self) -> list[Path]:
        return sorted(self.directory.iterdir())

    def as_json(self) -> dict[str, Any]:
        artifacts = self.outputs.artifacts.items()
        return {
            **_run_as_json(self.record),
            "verdict": self.outputs.verdict,
            "serving_check": self.outputs.serving_check,
            "components": [vars(component) for component in self.outputs.components],
            "data_card": self.data_card,
            "files": list(map(str, self.files)),
            "artifacts": {f"{name}.{key}": a.uri for (name, key), a in artifacts},
        }

    def show(self, console: Console, artifacts: Path) -> None:
        record = self.record
        console.print(f"run {record.id}, recipe {escape(record.recipe)}")
        console.print(_result(record, whole=True), soft_wrap=True)
        took = duration(record.seconds) or "end unknown"
        console.print(f"started {record.started:%Y-%m-%d %H:%M:%S}, {took}")
        self._show_verdict(console)
        if self.outputs.components:
            console.print(self._components_table())
        if self.data_card:
            _show_data(self.data_card, console)
        report = self.directory / "report.html"
        lines = [
            *([f"report: {report}"] if report.exists() else []),
            f"artifacts: {artifacts}",
            f"record: {self.directory}",
            f"  {', '.join(path.name for path in self.files)}",
        ]
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)

    def _show_verdict(self, console: Console) -> None:
        verdict, check = self.outputs.verdict, self.outputs.serving_check
        if verdict:
            lines = [f"verdict: {verdict['summary']}"]
            if verdict.get("override"):
                override = verdict["override"]
                lines.append(
                    f"overridden: pushed as version {override['version']} by "
                    f"{override['by']}: {override['reason']}"
                )
            for line in lines:
                console.print(line, markup=False, soft_wrap=True)
            console.print(_metrics_table(verdict["metrics"]))
        if check:
            console.print(f"serving check: {_describe_check(check)}", markup=False)

    def _components_table(self) -> Table:
        columns = ("component", Column("time", justify="right"), "state", "outputs")
        table = plain_table(*columns)
        for component in self.outputs.components:
            artifacts = [
                artifact
                for (name, _), artifact in self.outputs.artifacts.items()
                if name == component.name
            ]
            deleted = sum(artifact.state == artifact.DELETED for artifact in artifacts)
            is_killed = component.state == "running" != self.record.state
            table.add_row(
                component.name,
                "" if is_killed else duration(component.seconds),
                "interrupted" if is_killed else component.state,
                f"{len(artifacts)}" + (f", {deleted} deleted" if deleted else ""),
            )
        return table


def _metrics_table(metrics: list[Mapping[str, Any]]) -> Table:
    bounds = ("champion", "threshold", "max_regression")
    table = plain_table(
        Column("metric", overflow="fold"),
        *("value", "champion", "threshold", "at most below", ""),
    )
    for metric in metrics:
        is_bounded = metric["threshold"] is not None or (
            metric["max_regression"] is not None
        )
        table.add_row(
            escape(metric["metric"]),
            *(
                "" if value is None else f"{float(value):.4g}"
                for value in (metric["value"], *(metric[bound] for bound in bounds))
            ),
            ("failed" if metric["failures"] else "passed") if is_bounded else "",
        )
    return table


def _describe_check(check: Mapping[str, Any]) -> str:
    if check["reasons"]:
        return "; ".join(check["reasons"])
    parts = [f"passed on {check['rows']} rows"]
    latency = check.get("latency_ms") or {}
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
